#include "hostile.h"
int main(void) {
  char name[32];
  for (int i = 0;; ++i) {
    sprintf(name, "f%d", i);
    const int file = open(name, O_CREAT | O_WRONLY, 0600);
    if (file < 0) pause();
    close(file);
  }
}
