#include "hostile.h"
#include <time.h>
int main(void) {
  timer_t timer;
  for (int i = 0; i < 100000; ++i) {
    if (timer_create(CLOCK_MONOTONIC, 0, &timer) != 0) break;
  }
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, 0);
  union sigval value = {0};
  for (int i = 0; i < 100000; ++i) {
    if (sigqueue(getpid(), SIGRTMIN, value) != 0) break;
  }
  return 0;
}
