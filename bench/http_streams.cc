#include "bench/http_streams.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

constexpr size_t kTailBytes = 64;

Result<Fd> ConnectTo(uint16_t port) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (!fd ||
      connect(fd.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) != 0) {
    return FileFailure("127.0.0.1:" + std::to_string(port), "cannot connect", errno);
  }
  return fd;
}

// False: the answer is over.
bool ReadEvents(int fd, StreamTimes& times) {
  char buffer[65536];
  const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
  if (n <= 0) return false;
  const std::string_view bytes(buffer, static_cast<size_t>(n));
  if (bytes.find("data: {") != std::string_view::npos) {
    times.events.push_back(std::chrono::steady_clock::now());
  }
  times.last.append(bytes);
  times.complete = times.last.find("[DONE]") != std::string::npos;
  if (times.last.size() > kTailBytes) times.last.erase(0, times.last.size() - kTailBytes);
  return !times.complete;
}

}  // namespace

Result<std::vector<StreamTimes>> StreamAll(uint16_t port, const std::string& path,
                                           const std::vector<std::string>& bodies, Duration limit) {
  std::vector<Fd> sockets;
  for (size_t i = 0; i < bodies.size(); ++i) {
    TM_ASSIGN_OR_RETURN(Fd fd, ConnectTo(port));
    sockets.push_back(std::move(fd));
  }
  std::vector<StreamTimes> times(bodies.size());
  std::vector<struct pollfd> waiting;
  for (size_t i = 0; i < bodies.size(); ++i) {
    times[i].sent = std::chrono::steady_clock::now();
    const std::string head = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                             std::to_string(bodies[i].size()) + "\r\n\r\n";
    TM_RETURN_IF_ERROR(WriteAll(sockets[i], head + bodies[i], "the gateway"));
    waiting.push_back({sockets[i].get(), POLLIN, 0});
  }
  size_t open = bodies.size();
  const Time until = std::chrono::steady_clock::now() + limit;
  while (open > 0 && std::chrono::steady_clock::now() < until) {
    if (poll(waiting.data(), waiting.size(), 1000) < 0 && errno != EINTR) break;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0 || ReadEvents(waiting[i].fd, times[i])) {
        continue;
      }
      waiting[i].fd = -1;
      --open;
    }
  }
  return times;
}

}  // namespace tidemill
