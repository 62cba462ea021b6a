#include "hostile.h"
#include <sys/epoll.h>
#include <sys/inotify.h>
int main(void) {
  for (int i = 0; i < 10000; ++i) {
    if (inotify_init() < 0) break;
  }
  for (int i = 0; i < 10000; ++i) {
    if (epoll_create1(0) < 0) break;
  }
  return 0;
}
