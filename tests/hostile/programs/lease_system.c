#include "hostile.h"
int main(void) {
  const int file = open("/usr/bin/env", O_RDONLY);
  if (fcntl(file, F_SETLEASE, F_RDLCK) == 0) escaped("a lease");
  return 0;
}
