#include "hostile.h"
int main(void) {
  static char block[1 << 20];
  for (int i = 0; i < 100; ++i) {
    const int file = open("/tmp/gone", O_CREAT | O_RDWR, 0600);
    unlink("/tmp/gone");
    if (file < 0 || write(file, block, sizeof block) < 0) pause();
  }
  return 0;
}
