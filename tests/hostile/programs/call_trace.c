#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_ptrace, 0L, 0L, 0L, 0L));
  REFUSED(syscall(SYS_ptrace, 16L, 1L, 0L, 0L));
  REFUSED(syscall(SYS_process_vm_readv, 1L, b, 1L, b, 1L, 0L));
  REFUSED(syscall(SYS_process_vm_writev, 1L, b, 1L, b, 1L, 0L));
  REFUSED(syscall(SYS_kcmp, 1L, 1L, 0L, 0L, 0L));
  REFUSED(syscall(438L, 0L, 0L, 0L));  /* pidfd_getfd */
  REFUSED(syscall(440L, 0L, b, 1L, 0L, 0L));  /* process_madvise */
  (void)b;
  return 0;
}
