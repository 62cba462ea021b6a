#include "store/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace tidemill {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Status WriteAll(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileFailure(path, "cannot write", errno);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return Ok();
}

Status WriteSynced(const std::string& path, std::string_view content) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (fd.get() < 0) return FileFailure(path, "cannot create", errno);
  TM_RETURN_IF_ERROR(WriteAll(fd.get(), content, path));
  if (fsync(fd.get()) != 0) return FileFailure(path, "cannot sync", errno);
  return Ok();
}

}  // namespace

Status FileFailure(const std::string& path, std::string_view doing, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : Code::kUnavailable;
  return {code, path + ": " + std::string(doing) + ": " + std::strerror(error)};
}

Status WriteFileAtomically(const std::string& path, std::string_view content) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary =
      path + ".tmp" + std::to_string(getpid()) + "." + std::to_string(counter++);
  unlink(temporary.c_str());  // of an earlier process with our number that died here
  Status status = WriteSynced(temporary, content);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = FileFailure(path, "cannot rename into place", errno);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(ParentOf(path));
}

Result<std::string> ReadWholeFile(const std::string& path, size_t bytes_max) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FileFailure(path, "cannot open", errno);
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileFailure(path, "cannot read", errno);
    if (n == 0) return content;
    if (content.size() + static_cast<size_t>(n) > bytes_max) {
      return Full(path + ": larger than the limit of " + std::to_string(bytes_max) + " bytes");
    }
    content.append(buffer, static_cast<size_t>(n));
  }
}

Status SyncDirectory(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return FileFailure(path, "cannot open the directory", errno);
  if (fsync(fd.get()) != 0) return FileFailure(path, "cannot sync the directory", errno);
  return Ok();
}

Status MakeDirectories(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return SyncDirectory(ParentOf(path));
  if (errno == EEXIST) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return Ok();
    return Invalid(path + ": is not a directory");
  }
  if (errno != ENOENT) return FileFailure(path, "cannot make the directory", errno);
  const std::string parent = ParentOf(path);
  if (parent == path) return FileFailure(path, "cannot make the directory", ENOENT);
  TM_RETURN_IF_ERROR(MakeDirectories(parent));
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return FileFailure(path, "cannot make the directory", errno);
  }
  return SyncDirectory(parent);
}

}  // namespace tidemill
