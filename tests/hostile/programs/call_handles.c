#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_open_by_handle_at, -100L, b, 0L));
  REFUSED(syscall(SYS_name_to_handle_at, -100L, "/", b, b, 0L));
  REFUSED(syscall(SYS_fanotify_init, 0L, 0L));
  (void)b;
  return 0;
}
