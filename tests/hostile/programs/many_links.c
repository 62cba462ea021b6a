#include "hostile.h"
int main(void) {
  char name[32];
  close(open("one", O_CREAT | O_WRONLY, 0600));
  for (int i = 0; i < 60000; ++i) {
    sprintf(name, "l%d", i);
    if (link("one", name) != 0) return 0;
  }
  return 0;
}
