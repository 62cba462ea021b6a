#include "hostile.h"
int main(void) {
  for (int fd = 0; fd < 1024; ++fd) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (accept(fd, 0, 0) >= 0) escaped("a connection");
    char byte;
    if (fd > 2 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) escaped("a message");
  }
  return 0;
}
