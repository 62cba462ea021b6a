#include "hostile.h"
int main(void) {
  for (int fd = 3; fd < 1024; ++fd) {
    if (openat(fd, "etc/shadow", O_RDONLY) >= 0) escaped("a folder of the host");
    if (openat(fd, "../../../etc/shadow", O_RDONLY) >= 0) escaped("a folder above");
  }
  return 0;
}
