#include "hostile.h"
/* An agent's box has a loopback of its own and nothing else that these families could reach. */
static int allowed(int family) {
#ifdef AGENTS_BOX
  if (family == AF_INET || family == AF_INET6 || family == AF_NETLINK) return 1;
#endif
  return family == AF_UNIX;
}
int main(void) {
  for (int family = 0; family < 64; ++family) {
    for (int type = 1; type <= 6; ++type) {
      if (!allowed(family) && (socket(family, type, 0) >= 0 || socket(family, type | SOCK_CLOEXEC, 6) >= 0)) {
        printf("ESCAPED family %d\n", family);
      }
    }
  }
  int ends[2];
  if (socketpair(AF_INET, SOCK_STREAM, 0, ends) == 0) escaped("a pair");
  return 0;
}
