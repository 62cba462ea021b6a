#include "hostile.h"
#include <sys/mman.h>
int main(void) {
  for (;;) {
    char* block = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 1;
    memset(block, 1, 8 << 20);
  }
}
