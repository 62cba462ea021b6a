#include "hostile.h"
int main(void) {
  static char b[512];
  REFUSED(syscall(SYS_keyctl, 0L, -3L, 0L));
  REFUSED(syscall(SYS_add_key, "user", "a", "b", 1L, -3L));
  REFUSED(syscall(SYS_request_key, "user", "a", 0L, -3L));
  (void)b;
  return 0;
}
