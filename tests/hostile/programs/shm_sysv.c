#include "hostile.h"
#include <sys/shm.h>
int main(void) {
  for (;;) {
    if (fork() == 0) {
      const int segment = shmget(IPC_PRIVATE, 8 << 20, 0600);
      if (segment < 0) _exit(1);
      memset(shmat(segment, 0, 0), 1, 8 << 20);
      _exit(0);
    }
    int status = 0;
    wait(&status);
    if (WEXITSTATUS(status) != 0) return 1;
  }
}
