#include "hostile.h"
int main(void) {
  if (setpriority(PRIO_PROCESS, 0, -20) == 0) escaped("priority");
  const struct sched_param first = {1};
  if (sched_setscheduler(0, SCHED_FIFO, &first) == 0) escaped("real time");
  return 0;
}
