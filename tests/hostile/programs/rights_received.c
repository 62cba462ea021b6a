#include "hostile.h"
int main(void) {
  for (int fd = 0; fd < 64; ++fd) {
    char control[CMSG_SPACE(64 * sizeof(int))], byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {0, 0, &part, 1, control, sizeof control, 0};
    if (recvmsg(fd, &message, MSG_DONTWAIT) >= 0) escaped("a message");
  }
  return 0;
}
