#include "hostile.h"
static int deeper(int n) {
  volatile char page[4096];
  page[0] = (char)n;
  return deeper(n + 1) + page[0];
}
int main(void) { return deeper(0); }
