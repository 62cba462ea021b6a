// A raw HTTP client for tests: says exactly the bytes it is given.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    TM_CHECK(fd_ >= 0, "socket");
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    struct sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    TM_CHECK(connect(fd_, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) == 0,
             "connect");
  }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Whether all of it could be sent.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void Get(const std::string& target, const std::string& headers = "") {
    Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  }

  // Reads until `mark` has come, the other side ends, or 20 seconds (a failure) have passed.
  std::string ReadUntil(std::string_view mark) {
    for (size_t from = 0; read_.find(mark, from) == std::string::npos;) {
      from = read_.size() - std::min(read_.size(), mark.size());
      if (!ReadSome()) break;
    }
    return read_;
  }
  std::string ReadToEnd() {
    while (ReadSome()) {
    }
    return read_;
  }
  // One whole answer with Content-Length; what follows it stays for the next.
  std::string ReadAnswer() {
    ReadUntil("\r\n\r\n");
    const size_t head = read_.find("\r\n\r\n");
    if (head == std::string::npos) return read_;
    const size_t field = read_.find("Content-Length: ");
    const size_t length = field < head ? std::stoul(read_.substr(field + 16)) : 0;
    while (read_.size() < head + 4 + length && ReadSome()) {
    }
    const std::string answer = read_.substr(0, head + 4 + length);
    read_.erase(0, answer.size());
    return answer;
  }
  bool ended() const { return ended_; }

 private:
  bool ReadSome() {
    struct pollfd entry = {fd_, POLLIN, 0};
    if (ended_ || poll(&entry, 1, 20'000) <= 0) return false;
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, sizeof(buffer), 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    read_.append(buffer, static_cast<size_t>(n));
    return true;
  }

  int fd_ = -1;
  bool ended_ = false;
  std::string read_;
};

inline int StatusOf(const std::string& answer) {
  return answer.size() > 12 && answer.rfind("HTTP/1.1 ", 0) == 0 ? std::stoi(answer.substr(9, 3))
                                                                 : 0;
}

inline std::string BodyOf(const std::string& answer) {
  const size_t head = answer.find("\r\n\r\n");
  return head == std::string::npos ? "" : answer.substr(head + 4);
}

}  // namespace tidemill
