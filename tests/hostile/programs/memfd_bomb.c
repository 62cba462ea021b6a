#include "hostile.h"
int main(void) {
  static char block[1 << 20];
  memset(block, 1, sizeof block);
  for (;;) {
    const int file = (int)syscall(SYS_memfd_create, "x", 0);
    if (file < 0) return 1;
    for (int i = 0; i < 4; ++i) {
      if (write(file, block, sizeof block) < 0) return 1;
    }
  }
}
