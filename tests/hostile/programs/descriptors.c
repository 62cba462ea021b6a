#include "hostile.h"
int main(void) {
  for (int fd = 3; fd < 4096; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) {
      printf("ESCAPED descriptor %d\n", fd);
    }
  }
  return 0;
}
