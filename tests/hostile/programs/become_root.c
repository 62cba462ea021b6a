#include "hostile.h"
#include <grp.h>
int main(void) {
  if (setuid(0) == 0 || setresuid(0, 0, 0) == 0 || setgid(0) == 0) escaped("root");
  gid_t groups[1] = {0};
  if (setgroups(1, groups) == 0) escaped("a group");
  if (getuid() == 0 || geteuid() == 0) escaped("it is root");
  return 0;
}
