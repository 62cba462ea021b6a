#include "hostile.h"
int main(void) {
  struct sockaddr_un address = {AF_UNIX};
  strcpy(address.sun_path, getenv("HOST_SOCKET"));
  address.sun_path[0] = 0;
  if (connect(socket(AF_UNIX, SOCK_STREAM, 0), (void*)&address, sizeof address) == 0) escaped("an abstract name");
  return 0;
}
