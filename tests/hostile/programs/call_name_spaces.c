#include "hostile.h"
int main(void) {
  static char b[512];
  const int flags[] = {0x10000000, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000, 0x80};
  for (int i = 0; i < 8; ++i) {
    REFUSED(syscall(SYS_unshare, (long)flags[i]));
    REFUSED(syscall(SYS_setns, 0L, (long)flags[i]));
  }
  for (int i = 0; i < 7; ++i) REFUSED(syscall(SYS_clone, (long)flags[i] | SIGCHLD, 0L, 0L, 0L, 0L));
  uint64_t arguments[11] = {0x10000000};
  REFUSED(syscall(435L, arguments, sizeof arguments));  /* clone3 */
  (void)b;
  return 0;
}
