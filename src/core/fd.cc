#include "core/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include <cerrno>

namespace tidemill {
namespace {

// For kernels older than 5.11.
void SealOneByOne() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    const int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO) (void)CloseOnExec(fd);
  }
  closedir(folder);
}

}  // namespace

bool CloseOnExec(int fd) {
  return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

void SealDescriptors() {
  const long done = syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
  if (done != 0) SealOneByOne();
}

void FillStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest free number is the one that is missing.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR);
  }
}

}  // namespace tidemill
