#include "hostile.h"
int main(void) {
  static char b[512];
  errno = 0;
  if (syscall(467L, -100L, "/", 1L, 0L, 0L) >= 0 || errno != ENOSYS) escaped("open_tree_attr");
  (void)b;
  return 0;
}
