#include "learner/torch/rank_meeting.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <cstring>

namespace tidemill {

Result<MeetingPlace> ParseMeeting(const std::string& text) {
  MeetingPlace place;
  if (text.starts_with("file:/")) {
    place.file = text.substr(5);
    return place;
  }
  const size_t colon = text.rfind(':');
  const char* end = text.data() + text.size();
  if (colon == std::string::npos || colon == 0 ||
      std::from_chars(text.data() + colon + 1, end, place.port).ptr != end || place.port == 0) {
    return Invalid("\"" + text + "\" must be HOST:PORT, like 10.0.0.5:29400");
  }
  place.host = text.substr(0, colon);
  return place;
}

Result<std::string> AddressTowards(const std::string& host, uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found)) {
    return Unavailable(host + ": " + gai_strerror(error));
  }
  std::string address, why = "no route";
  for (const addrinfo* at = found; at != nullptr && address.empty(); at = at->ai_next) {
    // Nothing is sent: connecting a datagram socket only chooses the way.
    const int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own = {};
    socklen_t size = sizeof own;
    char name[NI_MAXHOST];
    if (connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
        getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, name, sizeof name, nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      address = name;
    } else {
      why = std::strerror(errno);
    }
    close(fd);
  }
  freeaddrinfo(found);
  if (address.empty()) return Unavailable(host + ": " + why);
  return address;
}

std::string ThisProcess() {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  return "process " + std::to_string(getpid()) + " on " + host;
}

}  // namespace tidemill
