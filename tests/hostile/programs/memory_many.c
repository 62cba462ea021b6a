#include "hostile.h"
int main(void) {
  for (int i = 0; i < 20; ++i) {
    if (fork() == 0) {
      memset(malloc(16 << 20), 1, 16 << 20);
      for (;;) pause();
    }
  }
  for (;;) pause();
}
