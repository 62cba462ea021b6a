#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_init_module, b, 1L, ""));
  REFUSED(syscall(SYS_finit_module, 0L, "", 0L));
  REFUSED(syscall(SYS_delete_module, "x", 0L));
  REFUSED(syscall(SYS_kexec_load, 0L, 0L, 0L, 0L));
  REFUSED(syscall(SYS_reboot, 0xfee1deadL, 672274793L, 0L, 0L));
  REFUSED(syscall(SYS_swapon, "/tmp/x", 0L));
  REFUSED(syscall(SYS_swapoff, "/tmp/x"));
  REFUSED(syscall(SYS_sethostname, "x", 1L));
  REFUSED(syscall(SYS_setdomainname, "x", 1L));
  REFUSED(syscall(SYS_settimeofday, b, 0L));
  REFUSED(syscall(SYS_clock_settime, 0L, b));
  REFUSED(syscall(SYS_adjtimex, b));
  REFUSED(syscall(SYS_acct, "/tmp/x"));
  REFUSED(syscall(SYS_quotactl, 0L, "", 0L, b));
  REFUSED(syscall(SYS_syslog, 3L, b, 10L));
  REFUSED(syscall(SYS_vhangup));
  (void)b;
  return 0;
}
