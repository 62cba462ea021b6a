#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_userfaultfd, 0L));
  REFUSED(syscall(SYS_vmsplice, 1L, b, 1L, 0L));
  REFUSED(syscall(SYS_remap_file_pages, b, 0L, 0L, 0L, 0L));
  REFUSED(syscall(SYS_move_pages, 1L, 0L, b, b, b, 0L));
  REFUSED(syscall(SYS_migrate_pages, 1L, 0L, b, b));
  (void)b;
  return 0;
}
