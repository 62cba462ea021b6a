#include "rollout/tree_merge.h"

#include <algorithm>
#include <map>
#include <set>

namespace tidemill {
namespace {

using FilesByPath = std::map<std::string, const v1::File*>;

FilesByPath ByPath(const v1::Tree& tree) {
  FilesByPath files;
  for (const v1::File& file : tree.files()) files.emplace(file.path(), &file);
  return files;
}

// nullptr: it is not there.
const v1::File* At(const FilesByPath& files, const std::string& path) {
  const auto found = files.find(path);
  return found == files.end() ? nullptr : found->second;
}

bool SameFile(const v1::File* a, const v1::File* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->hash() == b->hash() && a->executable() == b->executable();
}

}  // namespace

void PutFile(v1::Tree& tree, const v1::File& file) {
  for (v1::File& present : *tree.mutable_files()) {
    if (present.path() == file.path()) {
      present = file;
      return;
    }
  }
  *tree.add_files() = file;
}

void MergeChanges(const v1::Tree& before, const v1::Tree& after, v1::Tree& tree) {
  FilesByPath gone = ByPath(before);
  for (const v1::File& file : after.files()) {
    if (!SameFile(At(gone, file.path()), &file)) PutFile(tree, file);
    gone.erase(file.path());
  }
  auto* files = tree.mutable_files();
  files->erase(std::remove_if(files->begin(), files->end(),
                              [&](const v1::File& file) { return gone.count(file.path()) != 0; }),
               files->end());
}

std::vector<std::string> ConflictsOf(const v1::Tree& before, const v1::Tree& after,
                                     const v1::Tree& tree) {
  const FilesByPath old = ByPath(before), fresh = ByPath(after), now = ByPath(tree);
  std::set<std::string> paths;
  for (const auto& [path, file] : old) paths.insert(path);
  for (const auto& [path, file] : fresh) paths.insert(path);
  std::vector<std::string> conflicts;
  for (const std::string& path : paths) {
    if (SameFile(At(old, path), At(fresh, path))) continue;  // it was not touched
    if (!SameFile(At(old, path), At(now, path))) conflicts.push_back(path);
  }
  return conflicts;
}

}  // namespace tidemill
