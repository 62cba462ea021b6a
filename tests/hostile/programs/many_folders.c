#include "hostile.h"
int main(void) {
  char name[32];
  for (int i = 0;; ++i) {
    sprintf(name, "d%d", i);
    if (mkdir(name, 0700) != 0) pause();
  }
}
