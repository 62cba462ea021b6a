#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(425L, 4L, b));
  REFUSED(syscall(426L, 0L, 1L, 0L, 0L, 0L));
  REFUSED(syscall(427L, 0L, 0L, b, 1L));
  REFUSED(syscall(SYS_io_setup, 4L, b));
  (void)b;
  return 0;
}
