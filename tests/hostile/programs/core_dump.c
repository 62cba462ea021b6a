#include "hostile.h"
int main(void) {
  signal(SIGSEGV, SIG_DFL);
  return *(volatile int*)0;
}
