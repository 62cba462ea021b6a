#include "hostile.h"
int main(void) {
  for (int i = 0; i < 1000; ++i) {
    if (mkdir("d", 0700) != 0 || chdir("d") != 0) return 0;
  }
  return 0;
}
