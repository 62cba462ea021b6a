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
  int inner = 1;
  for (int i = 0; i < 200; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
    if (pass(ends[0], inner) < 0) return 0;
    close(ends[0]);
    inner = ends[1];
  }
  return 0;
}
