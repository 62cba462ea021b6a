#include "hostile.h"
int main(void) {
  struct sockaddr_un address = {AF_UNIX};
  strcpy(address.sun_path, getenv("HOST_SOCKET"));
  if (connect(socket(AF_UNIX, SOCK_STREAM, 0), (void*)&address, sizeof address) == 0) escaped("a path");
  return 0;
}
