#include "tasks/unpack.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/fd.h"
#include "core/files.h"
#include "tasks/archive.h"

namespace tidemill {
namespace {

constexpr std::string_view kRemoved = ".wh.", kOpaque = ".wh..wh..opq";
constexpr int kUnpackDepthMax = 128;

// Resolves links as if the folder were the root, so that none leads out of it.
int OpenInRoot(int root, const std::string& path, uint64_t flags) {
  open_how how = {};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const std::string name = path.empty() ? "." : path;
  return static_cast<int>(syscall(SYS_openat2, root, name.c_str(), &how, sizeof how));
}

// One layer over a folder.
class Layer {
 public:
  Layer(Archive& archive, const Fd& root, UnpackBudget* budget)
      : archive_(archive), root_(root), budget_(budget) {}

  Status Unpack() {
    ArchiveEntry entry;
    for (;;) {
      TM_ASSIGN_OR_RETURN(const bool more, archive_.Next(&entry));
      if (!more) return Ok();
      if (budget_->entries-- == 0) return Full("the root file system has too many entries");
      while (entry.path.starts_with('/')) entry.path.erase(0, 1);
      if (entry.path.empty()) continue;
      const Status status = Add(entry);
      if (!status.ok()) return status.WithContext(entry.path);
    }
  }

 private:
  Status Add(const ArchiveEntry& entry) {
    TM_RETURN_IF_ERROR(CheckName(entry.path));
    const size_t slash = entry.path.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : entry.path.substr(0, slash);
    const std::string name = slash == std::string::npos ? entry.path : entry.path.substr(slash + 1);
    TM_ASSIGN_OR_RETURN(const Fd folder, Folder(parent));
    if (name == kOpaque) return Empty(folder, 0);
    if (name.starts_with(kRemoved)) return Remove(folder, name.substr(kRemoved.size()), 0);
    switch (entry.kind) {
      case ArchiveEntry::Kind::kFolder:
        return MakeFolder(folder, name);
      case ArchiveEntry::Kind::kFile: {
        TM_ASSIGN_OR_RETURN(const std::string content, archive_.Content());
        return Write(folder, name, content, entry.mode);
      }
      case ArchiveEntry::Kind::kLink:
        TM_RETURN_IF_ERROR(Remove(folder, name, 0));
        if (symlinkat(entry.target.c_str(), folder.get(), name.c_str()) == 0) return Ok();
        return Failed("linking");
      case ArchiveEntry::Kind::kHardLink:
        return CopyOf(entry.target, folder, name);
      case ArchiveEntry::Kind::kOther:
        return Ok();
    }
    return Ok();
  }

  static Status CheckName(const std::string& path) {
    size_t at = 0, parts = 0;
    for (;;) {
      const size_t slash = path.find('/', at);
      const std::string part = path.substr(at, slash == std::string::npos ? slash : slash - at);
      if (part == ".." || part.size() > 255) return Invalid("has a name that leads out");
      if (++parts > kUnpackDepthMax) return Invalid("lies too deep");
      if (slash == std::string::npos) return Ok();
      at = slash + 1;
    }
  }

  static Status Failed(std::string_view doing) {
    return Unavailable(std::string(doing) + " failed: " + std::strerror(errno));
  }

  // Made with its parents where missing.
  Result<Fd> Folder(const std::string& path) {
    Fd folder(OpenInRoot(root_.get(), path, O_PATH | O_DIRECTORY));
    if (folder) return folder;
    const size_t slash = path.rfind('/');
    if (path.empty()) return Failed("opening the folder");
    TM_ASSIGN_OR_RETURN(const Fd parent,
                        Folder(slash == std::string::npos ? "" : path.substr(0, slash)));
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    TM_RETURN_IF_ERROR(MakeFolder(parent, name));
    folder = Fd(OpenInRoot(root_.get(), path, O_PATH | O_DIRECTORY));
    if (!folder) return Failed("opening " + path);
    return folder;
  }

  static Status MakeFolder(const Fd& parent, const std::string& name) {
    if (name.empty() || name == ".") return Ok();
    struct stat info = {};
    const bool there = fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    // A link to a folder stands for it: /lib of a merged /usr.
    if (there && (S_ISDIR(info.st_mode) || S_ISLNK(info.st_mode))) return Ok();
    if (there && unlinkat(parent.get(), name.c_str(), 0) != 0) return Failed("removing");
    return mkdirat(parent.get(), name.c_str(), 0755) == 0 ? Ok() : Failed("making the folder");
  }

  Status Write(const Fd& folder, const std::string& name, const std::string& content,
               uint32_t mode) {
    if (content.size() > budget_->bytes) return Full("the root file system is too large");
    budget_->bytes -= content.size();
    TM_RETURN_IF_ERROR(Remove(folder, name, 0));
    const mode_t bits = (mode & 0111) != 0 ? 0755 : 0644;
    const Fd file(openat(folder.get(), name.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, bits));
    if (!file) return Failed("making the file");
    TM_RETURN_IF_ERROR(WriteAll(file, content, name));
    return fchmod(file.get(), bits) == 0 ? Ok() : Failed("setting the mode");
  }

  // A copy instead of a second name: what is copied is opened as a box would open it.
  Status CopyOf(const std::string& target, const Fd& folder, const std::string& name) {
    const Fd source(OpenInRoot(root_.get(), target, O_RDONLY | O_NONBLOCK));
    struct stat info = {};
    if (!source || fstat(source.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      return Invalid("is a second name of \"" + target + "\", which is no file");
    }
    std::string content(static_cast<size_t>(info.st_size), '\0');
    size_t at = 0;
    while (at < content.size()) {
      const ssize_t got = read(source.get(), content.data() + at, content.size() - at);
      if (got <= 0) return Failed("reading " + target);
      at += static_cast<size_t>(got);
    }
    return Write(folder, name, content, info.st_mode);
  }

  static Status Remove(const Fd& folder, const std::string& name, int depth) {
    if (name.empty() || name == "." || name == "..") return Invalid("has no name");
    if (unlinkat(folder.get(), name.c_str(), 0) == 0 || errno == ENOENT) return Ok();
    if (depth > kUnpackDepthMax) return Invalid("lies too deep");
    const Fd below(
        openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below) return Failed("removing");
    TM_RETURN_IF_ERROR(Empty(below, depth + 1));
    return unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0 ? Ok() : Failed("removing");
  }

  static Status Empty(const Fd& folder, int depth) {
    std::error_code error;
    std::vector<std::string> names;
    for (const auto& one : std::filesystem::directory_iterator(
             "/proc/self/fd/" + std::to_string(folder.get()), error)) {
      names.push_back(one.path().filename().string());
    }
    for (const std::string& name : names) TM_RETURN_IF_ERROR(Remove(folder, name, depth));
    return Ok();
  }

  Archive& archive_;
  const Fd& root_;
  UnpackBudget* budget_;
};

}  // namespace

Status UnpackLayer(const std::string& path, const std::string& folder, UnpackBudget* budget) {
  ArchiveLimits limits;
  limits.entries_max = budget->entries;
  limits.file_bytes_max = std::min(budget->file_bytes_max, budget->bytes);
  limits.bytes_max = budget->bytes;
  TM_ASSIGN_OR_RETURN(Archive archive, Archive::Open(path, limits));
  const Fd root(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root) return FileFailure(folder, "cannot open", errno);
  return Layer(archive, root, budget).Unpack();
}

}  // namespace tidemill
