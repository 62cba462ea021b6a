#include "hostile.h"
int main(void) {
  int result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(359), "b"(40), "c"(1), "d"(0));
  escaped("the 32-bit entry");
  return result;
}
