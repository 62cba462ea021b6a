#include "hostile.h"
int main(void) {
  int count = 0;
  while (open("/dev/null", O_RDONLY) >= 0) ++count;
  if (count > 1024) escaped("more descriptors than the limit");
  return 0;
}
