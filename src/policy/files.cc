#include "policy/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tidemill {
namespace {

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Status Failed(const std::string& what, const std::string& path) {
  const int error = errno;
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kUnavailable;
  return {code, path + ": cannot " + what + ": " + std::strerror(error)};
}

Result<size_t> RegularFileSize(const Fd& fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Failed("stat", path);
  if (!S_ISREG(info.st_mode)) return Invalid(path + ": not a regular file");
  return static_cast<size_t>(info.st_size);
}

Status WriteAll(const Fd& fd, std::string_view bytes, const std::string& path) {
  constexpr size_t kChunk = size_t{1} << 30;  // write(2) takes a little less than 2 GiB at once
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), std::min(bytes.size(), kChunk));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Ok();
}

Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return Failed("open folder", folder);
  // Some file systems cannot sync a folder; the rename itself has happened.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return Failed("sync folder", folder);
  return Ok();
}

Status WriteTemporary(const Fd& fd, const std::string& path,
                      std::span<const std::string_view> parts) {
  for (const std::string_view part : parts) TM_RETURN_IF_ERROR(WriteAll(fd, part, path));
  if (::fchmod(fd.get(), 0644) != 0) return Failed("set the mode of", path);
  if (::fsync(fd.get()) != 0) return Failed("sync", path);
  return Ok();
}

}  // namespace

Result<std::string> ReadFileBounded(const std::string& path, size_t max_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return Failed("open", path);
  TM_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(fd, path));
  if (size > max_bytes) {
    return Invalid(path + ": " + std::to_string(size) + " bytes, at most " +
                   std::to_string(max_bytes) + " are read");
  }
  std::string content(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t n = ::read(fd.get(), content.data() + have, size - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("read", path);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  content.resize(have);
  return content;
}

Status WriteFileAtomic(const std::string& path, std::span<const std::string_view> parts) {
  std::string temporary = path + ".XXXXXX";
  const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (fd.get() < 0) return Failed("create a temporary beside", path);
  Status status = WriteTemporary(fd, temporary, parts);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Failed("rename to", path);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncFolderOf(path);
}

Status WriteFileAtomic(const std::string& path, std::string_view content) {
  return WriteFileAtomic(path, std::span<const std::string_view>(&content, 1));
}

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return Failed("open", path);
  TM_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(fd, path));
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return Failed("map", path);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace tidemill
