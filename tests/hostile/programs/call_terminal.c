#include "hostile.h"
int main(void) {
  static char b[512];
  char byte = 'x';
  for (int fd = 0; fd < 3; ++fd) {
    REFUSED(syscall(SYS_ioctl, (long)fd, 0x5412L, &byte));
    REFUSED(syscall(SYS_ioctl, (long)fd, 0x541cL, &byte));
    REFUSED(syscall(SYS_ioctl, (long)fd, 0xffffffff00005412L, &byte));
  }
  (void)b;
  return 0;
}
