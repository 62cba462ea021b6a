#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/files.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

// Where the last whole line of the file ends.
Result<off_t> EndOfLastLine(int fd, const std::string& path) {
  off_t end = lseek(fd, 0, SEEK_END);
  char buffer[4096];
  while (end > 0) {
    const off_t from =
        end > static_cast<off_t>(sizeof buffer) ? end - static_cast<off_t>(sizeof buffer) : 0;
    const ssize_t n = pread(fd, buffer, static_cast<size_t>(end - from), from);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return FileFailure(path, "cannot read", n < 0 ? errno : EIO);
    for (ssize_t i = n; i > 0; --i) {
      if (buffer[i - 1] == '\n') return from + i;
    }
    end = from;
  }
  return off_t{0};
}

}  // namespace

Result<MetricsLog> MetricsLog::Open(const std::string& path) {
  Fd opened(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!opened) return FileFailure(path, "cannot open", errno);
  TM_RETURN_IF_ERROR(RegularFileSize(opened, path).status());
  const int fd = opened.Release();
  MetricsLog log(path, fd);
  TM_ASSIGN_OR_RETURN(const off_t end, EndOfLastLine(fd, path));
  if (ftruncate(fd, end) != 0)
    return FileFailure(path, "cannot truncate the incomplete line", errno);
  return log;
}

MetricsLog::MetricsLog(MetricsLog&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) close(fd_);
}

Status MetricsLog::Append(std::string_view json) {
  if (json.find('\n') != std::string_view::npos) {
    return Invalid(path_ + ": a line of metrics must not have a line break in it");
  }
  const std::string line = std::string(json) + "\n";
  const off_t before = lseek(fd_, 0, SEEK_END);
  ssize_t n;
  do {
    n = write(fd_, line.data(), line.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(line.size())) return Ok();
  const int error = n < 0 ? errno : ENOSPC;
  // Half a line would spoil the next one.
  if (n > 0 && ftruncate(fd_, before) != 0) return FileFailure(path_, "cannot truncate", errno);
  return FileFailure(path_, "cannot write", error);
}

}  // namespace tidemill
