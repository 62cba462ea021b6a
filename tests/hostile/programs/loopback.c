#include "hostile.h"
#include <arpa/inet.h>
int main(void) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {AF_INET, htons(HOST_PORT)};
  address.sin_addr.s_addr = htonl(0x7f000001);
  if (connect(s, (void*)&address, sizeof address) == 0) escaped("the loopback");
  return 0;
}
