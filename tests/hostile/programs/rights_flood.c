#include "hostile.h"
static int pass(int socket, int fd) {
  char control[CMSG_SPACE(sizeof(int))];
  memset(control, 0, sizeof control);
  char byte = 'x';
  struct iovec part = {&byte, 1};
  struct msghdr message = {0, 0, &part, 1, control, sizeof control, 0};
  struct cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &fd, sizeof fd);
  return (int)sendmsg(socket, &message, MSG_DONTWAIT);
}
int main(void) {
  int ends[2], held = 0;
  for (int i = 0; i < 400; ++i) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) break;
    while (pass(ends[0], 1) > 0 && held < 200000) ++held;
  }
  return 0;
}
