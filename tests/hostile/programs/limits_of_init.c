#include "hostile.h"
int main(void) {
  const struct rlimit none = {0, 0};
  for (int which = 0; which < 16; ++which) {
    if (syscall(SYS_prlimit64, 1, which, &none, 0) == 0) escaped("the limits of the init");
  }
  return 0;
}
