#include "hostile.h"
int main(void) {
  struct sockaddr_un address = {AF_UNIX, "answer.c"};
  const int s = socket(AF_UNIX, SOCK_STREAM, 0);
  return bind(s, (void*)&address, sizeof address) != 0 || listen(s, 1) != 0;
}
