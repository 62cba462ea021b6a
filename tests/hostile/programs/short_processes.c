#include "hostile.h"
int main(void) {
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    if (fork() == 0) {
      for (volatile int i = 0; i < 10000000; ++i) {
      }
      _exit(0);
    }
    usleep(20000);
  }
}
