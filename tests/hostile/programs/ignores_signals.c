#include "hostile.h"
int main(void) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, 0);
  for (int i = 1; i < 65; ++i) signal(i, SIG_IGN);
  for (;;) sleep(100);
}
