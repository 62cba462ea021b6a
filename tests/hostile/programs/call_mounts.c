#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0L, ""));
  REFUSED(syscall(SYS_umount2, "/usr", 2L));
  REFUSED(syscall(SYS_pivot_root, ".", "."));
  REFUSED(syscall(SYS_chroot, "/tmp"));
  REFUSED(syscall(428L, -100L, "/", 1L));  /* open_tree */
  REFUSED(syscall(429L, -1L, "", -1L, "", 0L));  /* move_mount */
  REFUSED(syscall(430L, "tmpfs", 0L));  /* fsopen */
  REFUSED(syscall(431L, 0L, 0L, 0L, 0L, 0L));  /* fsconfig */
  REFUSED(syscall(432L, 0L, 0L, 0L));  /* fsmount */
  REFUSED(syscall(433L, -100L, "/", 0L));  /* fspick */
  REFUSED(syscall(442L, -100L, "/", 0L, b, 32L));  /* mount_setattr */
  (void)b;
  return 0;
}
