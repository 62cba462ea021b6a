#include "store/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/fd.h"

namespace tidemill {
Result<std::string> ReadWholeFile(const std::string& path, size_t bytes_max) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return FileFailure(path, "cannot open", errno);
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
