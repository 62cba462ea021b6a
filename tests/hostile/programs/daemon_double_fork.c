#include "hostile.h"
int main(void) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      for (int i = 1; i < 65; ++i) signal(i, SIG_IGN);
      sleep(60);
      escaped("the daemon");
    }
  }
  return 0;
}
