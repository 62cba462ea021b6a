#include "bench/http_streams.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

constexpr size_t kFirstBytes = 32;
constexpr size_t kTailBytes = 512;

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

uint64_t VersionIn(std::string_view bytes) {
  constexpr std::string_view kName = "\"policy_versions\":[";
  const size_t at = bytes.rfind(kName);
  if (at == std::string_view::npos) return 0;
  uint64_t version = 0;
  std::from_chars(bytes.data() + at + kName.size(), bytes.data() + bytes.size(), version);
  return version;
}

// False: the answer is over.
bool ReadEvents(int fd, StreamTimes& times) {
  static thread_local std::array<char, 65536> buffer;
  const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
  if (n <= 0) return false;
  const std::string_view bytes(buffer.data(), static_cast<size_t>(n));
  if (bytes.find("data: {") != std::string_view::npos) {
    times.events.push_back({std::chrono::steady_clock::now(), VersionIn(bytes)});
  }
  if (times.first.size() < kFirstBytes) times.first.append(bytes.substr(0, kFirstBytes));
  times.last.append(bytes);
  const bool done = times.last.find("[DONE]") != std::string::npos;
  times.complete = done && times.first.rfind("HTTP/1.1 200", 0) == 0 &&
                   times.last.find("{\"error\"") == std::string::npos;
  if (times.last.size() > kTailBytes) times.last.erase(0, times.last.size() - kTailBytes);
  return !done;
}

class StreamClient {
 public:
  StreamClient(uint16_t port, const std::string& path, const std::vector<std::string>& bodies)
      : port_(port),
        path_(path),
        bodies_(bodies),
        times_(bodies.size()),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

  Result<std::vector<StreamTimes>> Run(const StreamAllOptions& options) {
    const size_t at_once = std::min(options.at_once, bodies_.size());
    // All are connected before the first asks: connecting is not what is measured.
    std::vector<Fd> connected;
    for (size_t i = 0; i < at_once; ++i) {
      TM_ASSIGN_OR_RETURN(Fd fd, ConnectTo(port_));
      connected.push_back(std::move(fd));
    }
    for (Fd& fd : connected) TM_RETURN_IF_ERROR(Send(std::move(fd)));
    const Time until = std::chrono::steady_clock::now() + options.limit;
    size_t ended = 0;
    while (!open_.empty() && std::chrono::steady_clock::now() < until) {
      std::array<struct epoll_event, 256> ready;
      const int n = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 1000);
      for (int i = 0; i < n; ++i) {
        const int fd = ready[static_cast<size_t>(i)].data.fd;
        const auto it = open_.find(fd);
        if (ReadEvents(fd, times_[it->second.stream])) continue;
        open_.erase(it);
        if (options.ended) options.ended(++ended);
        if (next_ == bodies_.size()) continue;
        TM_ASSIGN_OR_RETURN(Fd another, ConnectTo(port_));
        TM_RETURN_IF_ERROR(Send(std::move(another)));
      }
    }
    return std::move(times_);
  }

 private:
  struct Open {
    Fd fd;
    size_t stream;
  };

  Status Send(Fd fd) {
    const size_t stream = next_++;
    const std::string& body = bodies_[stream];
    const std::string head = "POST " + path_ + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                             std::to_string(body.size()) + "\r\n\r\n";
    times_[stream].sent = std::chrono::steady_clock::now();
    TM_RETURN_IF_ERROR(WriteAll(fd, head + body, "the gateway"));
    struct epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd.get();
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) {
      return FileFailure("epoll", "cannot watch a connection", errno);
    }
    const int key = fd.get();
    open_.emplace(key, Open{std::move(fd), stream});
    return Ok();
  }

  const uint16_t port_;
  const std::string& path_;
  const std::vector<std::string>& bodies_;
  std::vector<StreamTimes> times_;
  const Fd epoll_;
  std::unordered_map<int, Open> open_;
  size_t next_ = 0;
};

}  // namespace

Result<std::vector<StreamTimes>> StreamAll(uint16_t port, const std::string& path,
                                           const std::vector<std::string>& bodies,
                                           const StreamAllOptions& options) {
  return StreamClient(port, path, bodies).Run(options);
}

int64_t NumberIn(const StreamTimes& times, const std::string& name) {
  const std::string key = "\"" + name + "\":";
  const size_t at = times.last.rfind(key);
  if (at == std::string::npos) return -1;
  int64_t number = -1;
  std::from_chars(times.last.data() + at + key.size(), times.last.data() + times.last.size(),
                  number);
  return number;
}

}  // namespace tidemill
