#include "hostile.h"
__attribute__((constructor)) static void early(void) {
  for (int fd = 3; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) escaped("a descriptor");
    if (send(fd, "SET a b\r\n", 9, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) escaped("a socket");
  }
}
int main(void) { return 0; }
