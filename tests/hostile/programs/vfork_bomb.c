#include "hostile.h"
static void down(void) {
  if (vfork() == 0) {
    down();
    _exit(0);
  }
}
int main(void) {
  for (int i = 0; i < 100; ++i) {
    if (fork() == 0) {
      down();
      pause();
    }
  }
  pause();
}
