#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "box_init.h"

static char failure[512];
static int taken[8];
static int taken_count;

/* Descriptors may come with any bytes; they are kept until box_take_fds. */
static void take_control(struct msghdr* message) {
  for (struct cmsghdr* c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    int fds[8];
    memcpy(fds, CMSG_DATA(c), count * sizeof(int));
    for (size_t i = 0; i < count; ++i) {
      if (taken_count < 8) {
        taken[taken_count++] = fds[i];
      } else {
        close(fds[i]);
      }
    }
  }
}

bool box_read(void* bytes, size_t size) {
  char* at = bytes;
  while (size > 0) {
    char control[CMSG_SPACE(8 * sizeof(int))];
    struct iovec part = {at, size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(BOX_SOCKET_FD, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    take_control(&message);
    at += got;
    size -= (size_t)got;
  }
  return true;
}

void box_read_or_die(void* bytes, size_t size) {
  if (!box_read(bytes, size)) _exit(0);
}

void box_send(const void* bytes, size_t size) {
  const char* at = bytes;
  while (size > 0) {
    const ssize_t sent = send(BOX_SOCKET_FD, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(0);
    at += sent;
    size -= (size_t)sent;
  }
}

void box_send_frame(uint32_t type, const void* payload, size_t size) {
  char bytes[sizeof(struct BoxFrame) + 1024];
  const struct BoxFrame frame = {type, (uint32_t)size};
  memcpy(bytes, &frame, sizeof frame);
  if (size <= 1024) {
    if (size > 0) memcpy(bytes + sizeof frame, payload, size);
    box_send(bytes, sizeof frame + size);
    return;
  }
  box_send(bytes, sizeof frame);
  box_send(payload, size);
}

/* A frame without a payload, and a descriptor with it. */
void box_send_fd(uint32_t type, int fd) {
  struct BoxFrame frame = {type, 0};
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)];
  memset(control, 0, sizeof control);
  struct iovec part = {&frame, sizeof frame};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
  struct cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  if (sendmsg(BOX_SOCKET_FD, &message, MSG_NOSIGNAL) != (ssize_t)sizeof frame) _exit(0);
}

void box_fail(const char* what, const char* name, int error) {
  if (failure[0] != 0) return;
  snprintf(failure, sizeof failure, "%s %.200s: %s", what, name, strerror(error));
}

bool box_send_failure(void) {
  if (failure[0] == 0) return false;
  box_send_frame(BOX_FAILED, failure, strlen(failure));
  failure[0] = 0;
  return true;
}

int box_take_fds(int* fds, int max) {
  const int count = taken_count < max ? taken_count : max;
  memcpy(fds, taken, (size_t)count * sizeof(int));
  for (int i = count; i < taken_count; ++i) close(taken[i]);
  taken_count = 0;
  return count;
}

/* Linux 5.9 has it; an older kernel has no boxes. */
bool box_close_from(int first) {
  return syscall(SYS_close_range, first, ~0u, 0) == 0;
}
