#include "tools/workspace.h"

#include <fmt/format.h>

#include "core/hash.h"
#include "core/paths.h"

namespace tidemill {
namespace {

Status AddFile(const v1::File& file, BlobStore* blobs, Workspace* workspace) {
  TM_RETURN_IF_ERROR(CheckPath(file.path()));
  WorkspaceFile& place = (*workspace)[file.path()];
  place.executable = file.executable();
  if (file.has_content()) {
    place.content = file.content();
    return Ok();
  }
  if (blobs == nullptr) {
    return Unavailable(fmt::format("{} travels by hash, and there is no blob store", file.path()));
  }
  auto content = blobs->Get(file.hash());
  if (!content.ok()) return content.status().WithContext(file.path());
  place.content = std::move(*content);
  return Ok();
}

// A path cannot be a file and a folder.
Status CheckFolders(const Workspace& workspace) {
  for (const auto& [path, file] : workspace) {
    for (size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const std::string_view folder = std::string_view(path).substr(0, slash);
      if (workspace.find(folder) != workspace.end()) {
        return Invalid(fmt::format("\"{}\" is both a file and the folder of \"{}\"", folder, path));
      }
    }
  }
  return Ok();
}

}  // namespace

Result<Workspace> LoadWorkspace(const v1::Tree& tree,
                                const google::protobuf::RepeatedPtrField<v1::File>& edits,
                                BlobStore* blobs, const WorkspaceLimits& limits) {
  Workspace workspace;
  size_t bytes = 0;
  for (const auto* files : {&tree.files(), &edits}) {
    for (const v1::File& file : *files) {
      TM_RETURN_IF_ERROR(AddFile(file, blobs, &workspace));
      bytes += workspace[file.path()].content.size();
      if (bytes > limits.bytes_max || workspace.size() > limits.files_max) {
        return Invalid(fmt::format("the workspace has more than {} files or {} bytes",
                                   limits.files_max, limits.bytes_max));
      }
    }
  }
  TM_RETURN_IF_ERROR(CheckFolders(workspace));
  return workspace;
}

Result<v1::Tree> StoreWorkspace(const Workspace& workspace, BlobStore* blobs) {
  v1::Tree tree;
  size_t total = 0;
  for (const auto& [path, file] : workspace) total += file.content.size();
  for (const auto& [path, file] : workspace) {
    v1::File* stored = tree.add_files();
    stored->set_path(path);
    stored->set_executable(file.executable);
    if (blobs != nullptr && !TravelsInside(file.content.size(), total)) {
      auto hash = blobs->Put(file.content);
      if (!hash.ok()) return hash.status().WithContext(path);
      stored->set_hash(std::move(*hash));
    } else {
      stored->set_content(file.content);
      stored->set_has_content(true);
    }
  }
  NormalizeTree(tree);
  return tree;
}

}  // namespace tidemill
