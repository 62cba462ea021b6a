#include "hostile.h"
#include <sys/mman.h>
int main(void) {
  if (mlock(malloc(8 << 20), 8 << 20) == 0) escaped("8 MiB locked");
  return 0;
}
