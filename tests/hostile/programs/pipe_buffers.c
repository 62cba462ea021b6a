#include "hostile.h"
static char block[65536];
int main(void) {
  for (;;) {
    int ends[2];
    if (pipe(ends) != 0) return 0;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], 1031 /* F_SETPIPE_SZ */, 1 << 20);
    while (write(ends[1], block, sizeof block) > 0) {
    }
  }
}
