#include "hostile.h"
int main(void) {
  for (int family = 0; family < 64; ++family) {
    for (int type = 1; type <= 6; ++type) {
      if (family != AF_UNIX && (socket(family, type, 0) >= 0 || socket(family, type | SOCK_CLOEXEC, 6) >= 0)) {
        printf("ESCAPED family %d\n", family);
      }
    }
  }
  int ends[2];
  if (socketpair(AF_INET, SOCK_STREAM, 0, ends) == 0) escaped("a pair");
  return 0;
}
