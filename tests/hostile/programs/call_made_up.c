#include "hostile.h"
int main(void) {
  static char b[512];
  for (long number = 467; number < 2048; ++number) {
    errno = 0;
    if (syscall(number, -1L, 0L, 0L, 0L, 0L, 0L) >= 0 || errno != ENOSYS) {
      printf("ESCAPED call %ld: errno %d\n", number, errno);
    }
  }
  (void)b;
  return 0;
}
