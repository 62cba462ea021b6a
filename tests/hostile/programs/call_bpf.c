#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_bpf, 0L, b, (long)sizeof b));
  REFUSED(syscall(SYS_perf_event_open, b, 0L, -1L, -1L, 0L));
  (void)b;
  return 0;
}
