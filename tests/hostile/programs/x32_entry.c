#include "hostile.h"
int main(void) {
  syscall(0x40000000 + 39);
  escaped("x32");
  return 0;
}
