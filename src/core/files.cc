#include "core/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/replace_file.h"

namespace tidemill {
namespace {

constexpr size_t kWriteAtOnce = size_t{1} << 30;  // write(2) takes a little less than 2 GiB

// A new file beside `path`, named `name`. A name that is taken is left alone: it may be that of a
// living process of another machine.
Fd CreateBeside(const std::string& path, std::string& name) {
  static std::atomic<uint64_t> counter{0};
  constexpr int kTakenMax = 1000;
  Fd fd;
  for (int i = 0; i < kTakenMax && !fd; ++i) {
    name = path + ".tmp" + std::to_string(getpid()) + "." + std::to_string(counter++);
    fd = Fd(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd && errno != EEXIST) break;
  }
  return fd;
}

Status FillSynced(const Fd& fd, const std::string& path, const FileFill& fill) {
  TM_RETURN_IF_ERROR(fill(fd, path));
  return fsync(fd.get()) == 0 ? Ok() : FileFailure(path, "cannot sync", errno);
}

}  // namespace

Status FileFailure(const std::string& path, std::string_view doing, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR || error == ESTALE;
  return {missing ? Code::kNotFound : Code::kUnavailable,
          path + ": " + std::string(doing) + ": " + std::strerror(error)};
}

Result<size_t> RegularFileSize(const Fd& fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return FileFailure(path, "cannot stat", errno);
  if (!S_ISREG(info.st_mode)) return Invalid(path + ": not a regular file");
  return static_cast<size_t>(info.st_size);
}

Result<std::string> ReadFileBounded(const std::string& path, size_t bytes_max) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return FileFailure(path, "cannot open", errno);
  TM_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(fd, path));
  if (size > bytes_max) {
    return Invalid(path + ": " + std::to_string(size) + " bytes, at most " +
                   std::to_string(bytes_max) + " are read");
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

Status WriteAll(const Fd& fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd.get(), bytes.data(), std::min(bytes.size(), kWriteAtOnce));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileFailure(path, "cannot write", errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Ok();
}

Status WriteAllAt(const Fd& fd, uint64_t offset, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd.get(), bytes.data(), std::min(bytes.size(), kWriteAtOnce),
                             static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileFailure(path, "cannot write", errno);
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return Ok();
}

Status ReplaceFile(const std::string& path, const FileFill& fill) {
  std::string temporary;
  const Fd fd = CreateBeside(path, temporary);
  if (!fd) return FileFailure(path, "cannot create a temporary beside it", errno);
  Status status = FillSynced(fd, temporary, fill);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = FileFailure(path, "cannot rename into place", errno);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(ParentOf(path));
}

Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> parts) {
  return ReplaceFile(path, [&](const Fd& fd, const std::string& name) {
    for (const std::string_view part : parts) TM_RETURN_IF_ERROR(WriteAll(fd, part, name));
    return Ok();
  });
}

Status WriteFileAtomically(const std::string& path, std::string_view content) {
  return WriteFileAtomically(path, std::span<const std::string_view>(&content, 1));
}

Status MakeDirectories(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return SyncDirectory(ParentOf(path));
  if (errno == EEXIST) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return Ok();
    return Invalid(path + ": is not a directory");
  }
  if (errno != ENOENT) return FileFailure(path, "cannot create the directory", errno);
  const std::string parent = ParentOf(path);
  if (parent == path) return FileFailure(path, "cannot create the directory", ENOENT);
  TM_RETURN_IF_ERROR(MakeDirectories(parent));
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return FileFailure(path, "cannot create the directory", errno);
  }
  return SyncDirectory(parent);
}

Status SyncDirectory(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return FileFailure(path, "cannot open the directory", errno);
  // EINVAL: the file system cannot; what was done to the directory is done all the same.
  if (fsync(fd.get()) != 0 && errno != EINVAL) {
    return FileFailure(path, "cannot sync the directory", errno);
  }
  return Ok();
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace tidemill
