#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_syncfs, (long)open("/usr", O_RDONLY)));
  errno = 0;
  if (syscall(SYS_sync) == 0) escaped("sync");
  (void)b;
  return 0;
}
