// For the hostile programs in C. One that gets what it must not prints "ESCAPED" and what; the
// runner looks for that word in everything that leaves the box.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void escaped(const char* what) {
  printf("ESCAPED %s\n", what);
  fflush(stdout);
}

// A call that must be refused, by the filter or for want of a right.
#define REFUSED(call)                                                                      \
  do {                                                                                     \
    errno = 0;                                                                             \
    if ((long)(call) >= 0 ||                                                               \
        (errno != EPERM && errno != ENOSYS && errno != EACCES && errno != EAFNOSUPPORT)) { \
      printf("ESCAPED %s: errno %d\n", #call, errno);                                      \
      fflush(stdout);                                                                      \
    }                                                                                      \
  } while (0)
