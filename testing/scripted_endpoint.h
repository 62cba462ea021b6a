// An HTTP server for tests whose every answer is bytes the test gives: right, wrong, late or none.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/fd.h"
#include "core/mutex.h"
#include "core/status.h"

namespace tidemill {

class ScriptedEndpoint {
 public:
  struct Reaction {
    std::string bytes{};  // sent as they are
    bool close = false;   // then the connection is closed
    bool flood = false;   // the bytes are sent again and again
    int delay_ms = 0;     // before the bytes, unless the server is stopped meanwhile
  };
  // Called for every request with its head and body, from the connection's thread.
  using Handler = std::function<Reaction(const std::string& head, const std::string& body)>;

  explicit ScriptedEndpoint(Handler handler, uint16_t port = 0) : handler_(std::move(handler)) {
    listening_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    setsockopt(listening_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    struct sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* at = reinterpret_cast<struct sockaddr*>(&address);
    TM_CHECK(bind(listening_.get(), at, sizeof(address)) == 0, "bind");
    TM_CHECK(listen(listening_.get(), 64) == 0, "listen");
    socklen_t size = sizeof(address);
    TM_CHECK(getsockname(listening_.get(), at, &size) == 0, "getsockname");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~ScriptedEndpoint() { Stop(); }

  // Every connection is gone when it returns.
  void Stop() {
    if (!acceptor_.joinable()) return;
    stopping_ = true;
    acceptor_.join();
    listening_.Reset();
    for (std::thread& thread : serving_) thread.join();
    serving_.clear();
  }

  uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }
  int requests() const { return requests_; }
  int connections() const { return connections_; }

  // A whole answer.
  static std::string Answer(int status, const std::string& body, const std::string& headers = "") {
    return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" +
           headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

 private:
  bool Readable(int fd) {
    while (!stopping_) {
      struct pollfd entry = {fd, POLLIN, 0};
      if (poll(&entry, 1, 10) > 0) return true;
    }
    return false;
  }
  void Accept() {
    while (Readable(listening_.get())) {
      const int fd = accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      ++connections_;
      serving_.emplace_back([this, fd] { Serve(Fd(fd)); });
    }
  }
  void Serve(Fd fd) {
    std::string read;
    while (true) {
      size_t head = read.find("\r\n\r\n");
      size_t length = 0;
      if (head != std::string::npos) {
        const size_t field = read.find("Content-Length: ");
        length = field < head ? std::stoul(read.substr(field + 16)) : 0;
      }
      if (head == std::string::npos || read.size() < head + 4 + length) {
        char buffer[65536];
        if (!Readable(fd.get())) return;
        const ssize_t n = recv(fd.get(), buffer, sizeof(buffer), 0);
        if (n <= 0) return;
        read.append(buffer, static_cast<size_t>(n));
        continue;
      }
      ++requests_;
      const Reaction reaction = handler_(read.substr(0, head), read.substr(head + 4, length));
      read.erase(0, head + 4 + length);
      for (int waited = 0; waited < reaction.delay_ms && !stopping_; waited += 5)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (stopping_) return;
      do {
        if (send(fd.get(), reaction.bytes.data(), reaction.bytes.size(), MSG_NOSIGNAL) < 0) return;
      } while (reaction.flood && !stopping_);
      if (reaction.close) return;
    }
  }

  const Handler handler_;
  Fd listening_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> requests_{0}, connections_{0};
  std::thread acceptor_;
  std::vector<std::thread> serving_;  // of the acceptor's thread until it has ended
};

}  // namespace tidemill
