#include "hostile.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
int main(void) {
  if (prctl(PR_SET_SECCOMP, 0, 0) == 0) escaped("the filter is off");
  if (prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) escaped("new privileges");
  struct sock_filter allow = {0x06, 0, 0, 0x7fff0000};
  struct sock_fprog program = {1, &allow};
  prctl(PR_SET_SECCOMP, 2, &program);
  REFUSED(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0L, ""));
  REFUSED(syscall(SYS_unshare, 0x10000000L));
  return 0;
}
