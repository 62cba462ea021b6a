#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_personality, 0x0400000L));
  (void)b;
  return 0;
}
