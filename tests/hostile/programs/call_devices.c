#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(mknod("/tmp/disk", S_IFBLK | 0600, 0x801));
  REFUSED(mknod("mem", S_IFCHR | 0600, 0x101));
  (void)b;
  return 0;
}
