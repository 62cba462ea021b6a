#include "hostile.h"
#include <sys/ipc.h>
#include <sys/shm.h>
int main(void) {
  if (shmget(0x7469646d, 0, 0) >= 0) escaped("a segment of the host");
  struct shmid_ds info;
  for (int i = 0; i < 1000; ++i) {
    if (shmctl(i, 13 /* SHM_STAT */, &info) >= 0) escaped("a segment");
  }
  return 0;
}
