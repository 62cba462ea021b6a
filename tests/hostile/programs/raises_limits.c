#include "hostile.h"
int main(void) {
  for (int which = 0; which < 16; ++which) {
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) continue;
    limit.rlim_cur = limit.rlim_max = limit.rlim_max + 1;
    if (setrlimit(which, &limit) == 0) escaped("a higher limit");
  }
  return 0;
}
