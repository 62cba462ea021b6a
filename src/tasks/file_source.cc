#include "tasks/file_source.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "core/files.h"
#include "core/paths.h"
#include "tasks/archive.h"
#include "tasks/git_checkout.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

std::string Below(const std::string& base, const std::string& path) {
  return fs::path(path).is_absolute() || base.empty() ? path : base + "/" + path;
}

// Takes files one by one within the limits, and those below a subfolder under their shorter names.
class Gathering {
 public:
  Gathering(const FileSourceLimits& limits, std::string subfolder)
      : limits_(limits), subfolder_(std::move(subfolder)) {
    if (!subfolder_.empty() && !subfolder_.ends_with('/')) subfolder_ += '/';
  }

  bool Wants(const std::string& path) const { return path.starts_with(subfolder_); }

  Status Add(const std::string& path, std::string content, bool executable) {
    v1::File file;
    file.set_path(path.substr(subfolder_.size()));
    TM_RETURN_IF_ERROR(CheckPath(file.path()));
    bytes_ += content.size();
    if (out_.files.size() == limits_.files_max || bytes_ > limits_.bytes_max) {
      return Full("has more than " + std::to_string(limits_.files_max) + " files or " +
                  std::to_string(limits_.bytes_max >> 20) + " MiB; name a \"subfolder\" of it");
    }
    file.set_content(std::move(content));
    file.set_has_content(true);
    file.set_executable(executable);
    out_.files.push_back(std::move(file));
    return Ok();
  }
  void LeaveOut() { ++out_.left_out; }
  uint64_t bytes_left() const { return limits_.bytes_max - std::min(bytes_, limits_.bytes_max); }

  Result<SourceFiles> Finish() {
    std::sort(out_.files.begin(), out_.files.end(),
              [](const v1::File& a, const v1::File& b) { return a.path() < b.path(); });
    for (size_t i = 1; i < out_.files.size(); ++i) {
      if (out_.files[i].path() == out_.files[i - 1].path()) {
        return Invalid("has \"" + out_.files[i].path() + "\" twice");
      }
    }
    if (out_.files.empty()) return NotFound("has no file" + Where());
    return std::move(out_);
  }

 private:
  std::string Where() const { return subfolder_.empty() ? "" : " below \"" + subfolder_ + "\""; }

  FileSourceLimits limits_;
  std::string subfolder_;
  SourceFiles out_;
  uint64_t bytes_ = 0;
};

Status GatherFolder(const std::string& folder, Gathering& gathering) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return NotFound(folder + ": no such folder");
  // Links are not followed: a folder holds what is below it.
  fs::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    const fs::file_status status = it->symlink_status(error);
    if (error) break;
    const std::string path = it->path().lexically_relative(folder).generic_string();
    if (fs::is_directory(status)) {
      if (it->path().filename() == ".git") it.disable_recursion_pending();
      continue;
    }
    if (!gathering.Wants(path)) continue;
    if (!fs::is_regular_file(status)) {
      gathering.LeaveOut();
      continue;
    }
    auto content = ReadFileBounded(it->path().string(), gathering.bytes_left() + 1);
    if (content.status().code() == Code::kInvalid) {
      return Full("has more bytes than a workspace may have, in " + path);
    }
    TM_RETURN_IF_ERROR(content.status());
    const bool executable = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    TM_RETURN_IF_ERROR(gathering.Add(path, std::move(*content), executable));
  }
  if (error) return Unavailable(folder + ": cannot be read: " + error.message());
  return Ok();
}

Status GatherArchive(const std::string& path, const FileSourceLimits& limits,
                     Gathering& gathering) {
  ArchiveLimits bounds;
  bounds.file_bytes_max = bounds.bytes_max = limits.bytes_max;
  TM_ASSIGN_OR_RETURN(Archive archive, Archive::Open(path, bounds));
  ArchiveEntry entry;
  for (;;) {
    TM_ASSIGN_OR_RETURN(const bool more, archive.Next(&entry));
    if (!more) return Ok();
    if (entry.kind == ArchiveEntry::Kind::kFolder || !gathering.Wants(entry.path)) continue;
    if (entry.kind != ArchiveEntry::Kind::kFile) {
      gathering.LeaveOut();
      continue;
    }
    // Checked before its content is read: a name that leads out is reason enough.
    TM_RETURN_IF_ERROR(CheckPath(entry.path));
    TM_ASSIGN_OR_RETURN(std::string content, archive.Content());
    TM_RETURN_IF_ERROR(gathering.Add(entry.path, std::move(content), (entry.mode & 0100) != 0));
  }
}

// A folder of our own that goes away.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "tidemill-git-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Status GatherGit(const std::string& repository, const std::string& commit, Gathering& gathering) {
  const Scratch scratch;
  if (scratch.path().empty()) return Unavailable("cannot make a temporary folder");
  TM_RETURN_IF_ERROR(CheckOutCommit(repository, commit, scratch.path()));
  return GatherFolder(scratch.path() + "/tree", gathering);
}

}  // namespace

std::string NameOf(const v1::FileSource& source) {
  if (!source.folder().empty()) return "the folder " + source.folder();
  if (!source.archive().empty()) return "the archive " + source.archive();
  return "the repository " + source.git() + " at " +
         (source.commit().empty() ? "HEAD" : source.commit());
}

Result<SourceFiles> ReadFileSource(const v1::FileSource& source, const std::string& base,
                                   const FileSourceLimits& limits) {
  Gathering gathering(limits, source.subfolder());
  Status status;
  if (!source.folder().empty()) {
    status = GatherFolder(Below(base, source.folder()), gathering);
  } else if (!source.archive().empty()) {
    status = GatherArchive(Below(base, source.archive()), limits, gathering);
  } else {
    status = GatherGit(Below(base, source.git()), source.commit(), gathering);
  }
  if (!status.ok()) return status.WithContext(NameOf(source));
  auto files = gathering.Finish();
  if (!files.ok()) return files.status().WithContext(NameOf(source));
  return files;
}

}  // namespace tidemill
