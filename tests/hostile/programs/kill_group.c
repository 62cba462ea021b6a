#include "hostile.h"
int main(void) {
  kill(0, SIGTERM);
  kill(-getpgrp(), SIGKILL);
  return 0;
}
