#include "skills/skill_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSkillFileMax = size_t{2} << 20;
constexpr size_t kScopeBytesMax = 200;  // of a file name

// What the folder must hold: content by path within it.
std::map<std::string, std::string> FilesOf(const SkillRepository& repository) {
  std::map<std::string, std::string> files;
  for (const auto& [scope, shelf] : repository.scopes()) {
    const std::string within = scope.empty() ? "" : ScopeFolder(scope) + "/";
    for (const auto& [name, skill] : shelf.skills()) {
      files[within + name + "/" + kSkillFile] = SkillMarkdown(skill.text);
    }
  }
  return files;
}

Status WriteSkill(const std::string& path, const std::string& content) {
  const auto before = ReadFileBounded(path, kSkillFileMax);
  if (before.ok() && *before == content) return Ok();
  TM_RETURN_IF_ERROR(MakeDirectories(ParentOf(path)));
  return WriteFileAtomically(path, content);
}

// Everything in `folder` that is none of these paths, nor on the way to one.
Status RemoveOthers(const std::string& folder, const std::set<std::string>& wanted) {
  std::vector<fs::path> gone;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::none, error), end;
  while (!error && it != end) {
    const std::string path = it->path().lexically_relative(folder).string();
    if (!wanted.contains(path)) {
      gone.push_back(it->path());
      it.disable_recursion_pending();
    }
    it.increment(error);
  }
  for (const fs::path& path : gone) {
    fs::remove_all(path, error);
    if (error) return Unavailable(path.string() + ": cannot remove it: " + error.message());
  }
  return gone.empty() ? Ok() : SyncDirectory(folder);
}

}  // namespace

std::string ScopeFolder(std::string_view scope) {
  if (scope.empty()) return "";
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string name = "+";
  for (const char c : scope.substr(0, kScopeBytesMax / 3)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (plain) {
      name += c;
    } else {
      name += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  if (scope.size() <= kScopeBytesMax / 3) return name;
  // Two long names that begin alike are two folders.
  return name + "+" + Sha256Hex(scope).substr(0, 16);
}

Status ExportSkills(const SkillRepository& repository, const std::string& folder) {
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  const std::map<std::string, std::string> files = FilesOf(repository);
  std::set<std::string> wanted;
  for (const auto& [path, content] : files) {
    TM_RETURN_IF_ERROR(WriteSkill(folder + "/" + path, content));
    for (std::string at = path; at != "."; at = ParentOf(at)) wanted.insert(at);
  }
  return RemoveOthers(folder, wanted);
}

Result<std::vector<SkillText>> ReadSkillFolder(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (fs::exists(it->path() / kSkillFile)) names.push_back(it->path().filename().string());
  }
  if (error) return Invalid(folder + ": " + error.message());
  std::sort(names.begin(), names.end());
  std::vector<SkillText> skills;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name + "/" + kSkillFile;
    TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kSkillFileMax));
    auto skill = ParseSkill(text);
    if (!skill.ok()) return skill.status().WithContext(path);
    if (skill->name != name) {
      return Invalid(path + ": names \"" + skill->name + "\"; must be the name of its folder");
    }
    skills.push_back(std::move(*skill));
  }
  return skills;
}

SkillFolderThread::SkillFolderThread(std::string folder)
    : folder_(std::move(folder)), thread_([this] { Work(); }) {}

SkillFolderThread::~SkillFolderThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void SkillFolderThread::Write(SkillRepository repository) {
  {
    MutexLock lock(mutex_);
    waiting_ = std::move(repository);
  }
  changed_.NotifyAll();
}

void SkillFolderThread::Work() {
  for (;;) {
    std::optional<SkillRepository> next;
    {
      MutexLock lock(mutex_);
      changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return waiting_ || stopping_; });
      next = std::exchange(waiting_, std::nullopt);
    }
    if (!next) return;
    const Status written = ExportSkills(*next, folder_);
    if (!written.ok()) LogWarn("the skills' folder", {{"error", written.ToString()}});
  }
}

}  // namespace tidemill
