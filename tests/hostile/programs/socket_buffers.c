#include "hostile.h"
static char block[65536];
int main(void) {
  for (int i = 0; i < 8; ++i) {
    if (fork() == 0) break;
  }
  for (;;) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) pause();
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while (write(ends[0], block, sizeof block) > 0) {
    }
  }
}
