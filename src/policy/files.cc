#include "policy/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

Result<size_t> RegularFileSize(const Fd& fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FileFailure(path, "cannot stat", errno);
  if (!S_ISREG(info.st_mode)) return Invalid(path + ": not a regular file");
  return static_cast<size_t>(info.st_size);
}

}  // namespace

Result<std::string> ReadFileBounded(const std::string& path, size_t max_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return FileFailure(path, "cannot open", errno);
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
    if (n < 0) return FileFailure(path, "cannot read", errno);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  content.resize(have);
  return content;
}

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return FileFailure(path, "cannot open", errno);
  TM_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(fd, path));
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return FileFailure(path, "cannot map", errno);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace tidemill
