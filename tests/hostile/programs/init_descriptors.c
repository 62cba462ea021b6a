#include "hostile.h"
int main(void) {
  const int init = (int)syscall(SYS_pidfd_open, 1, 0);
  for (int fd = 0; fd < 64; ++fd) {
    if (init >= 0 && syscall(SYS_pidfd_getfd, init, fd, 0) >= 0) escaped("pidfd_getfd");
    char path[64];
    sprintf(path, "/proc/1/fd/%d", fd);
    if (open(path, O_RDWR) >= 0 || open(path, O_RDONLY) >= 0) escaped(path);
  }
  return 0;
}
