// For tests: an OpenEnv server, a thread for each connection. What it does at each of a socket's
// messages is scripted.
#pragma once

#include <openssl/evp.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "environments/environment_json.h"
#include "http/http_peer.h"
#include "testing/http_client.h"

namespace tidemill {

class ScriptedOpenEnv {
 public:
  struct Deed {
    std::string text;     // sent as a message; empty: nothing is
    bool close = false;   // the connection ends
    bool broken = false;  // `text` is sent as it is, without a frame
  };
  // The how manieth message of the socket, from 0.
  using Script = std::function<Deed(const EnvironmentJson& message, int number)>;

  explicit ScriptedOpenEnv(Script script) : script_(std::move(script)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* at = reinterpret_cast<struct sockaddr*>(&address);
    TM_CHECK(bind(listener_, at, size) == 0 && listen(listener_, 512) == 0, "listen");
    TM_CHECK(getsockname(listener_, at, &size) == 0, "getsockname");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~ScriptedOpenEnv() {
    stopping_ = true;
    acceptor_.join();
    close(listener_);
    for (std::thread& one : connections_) one.join();
  }

  HttpUrl url() const { return ParseHttpUrl("http://127.0.0.1:" + std::to_string(port_)).value(); }
  int open() const { return open_; }

  static std::string Observation(const std::string& text, const EnvironmentJson& reward,
                                 bool done) {
    const EnvironmentJson data = {
        {"observation", {{"text", text}}}, {"reward", reward}, {"done", done}};
    return EnvironmentJson({{"type", "observation"}, {"data", data}}).dump();
  }
  static std::string Error(const std::string& code) {
    const EnvironmentJson data = {{"code", code}, {"message", "scripted"}};
    return EnvironmentJson({{"type", "error"}, {"data", data}}).dump();
  }

 private:
  void Accept() {
    while (!stopping_) {
      struct pollfd waits = {listener_, POLLIN, 0};
      if (poll(&waits, 1, 20) <= 0) continue;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      ++open_;
      connections_.emplace_back([this, fd] {
        Serve(fd);
        close(fd);
        --open_;
      });
    }
  }

  // False: the other side is gone, or we are.
  bool More(int fd, std::string& buffer) const {
    for (;;) {
      struct pollfd waits = {fd, POLLIN, 0};
      if (stopping_) return false;
      if (poll(&waits, 1, 50) <= 0) continue;
      char bytes[4096];
      const ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
      if (n <= 0) return false;
      buffer.append(bytes, static_cast<size_t>(n));
      return true;
    }
  }
  static void Write(int fd, const std::string& bytes) {
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  void Serve(int fd) {
    std::string buffer;
    for (;;) {
      while (buffer.find("\r\n\r\n") == std::string::npos) {
        if (!More(fd, buffer)) return;
      }
      const std::string head = buffer.substr(0, buffer.find("\r\n\r\n"));
      buffer.erase(0, head.size() + 4);
      if (head.find("GET /ws") == 0) return ServeSocket(fd, head, buffer);
      const std::string schema =
          R"({"action": {"properties": {"message": {}}, "required": ["message"]}})";
      Write(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                    std::to_string(schema.size()) + "\r\n\r\n" + schema);
    }
  }

  static std::string AcceptOf(const std::string& head) {
    const std::string name = "Sec-WebSocket-Key: ";
    const std::string key = head.substr(head.find(name) + name.size(), 24);
    const std::string text = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char digest[EVP_MAX_MD_SIZE], base64[64];
    unsigned int size = 0;
    EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr);
    const int length = EVP_EncodeBlock(base64, digest, static_cast<int>(size));
    return {reinterpret_cast<const char*>(base64), static_cast<size_t>(length)};
  }

  // The next text message; nothing: the socket is at its end.
  bool Hear(int fd, std::string& buffer, std::string& text) const {
    for (;;) {
      const size_t code = buffer.size() < 2 ? 0 : static_cast<size_t>(buffer[1] & 0x7F);
      const size_t head = code < 126 ? 2 : 4;
      const bool known = buffer.size() >= head && buffer.size() >= 2;
      const size_t size = !known || code < 126
                              ? code
                              : static_cast<size_t>(static_cast<uint8_t>(buffer[2])) << 8 |
                                    static_cast<uint8_t>(buffer[3]);
      if (!known || buffer.size() < head + 4 + size) {
        if (!More(fd, buffer)) return false;
        continue;
      }
      const int opcode = buffer[0] & 0x0F;
      text.clear();
      for (size_t i = 0; i < size; ++i) {
        text.push_back(static_cast<char>(buffer[head + 4 + i] ^ buffer[head + i % 4]));
      }
      buffer.erase(0, head + 4 + size);
      if (opcode == 8) return false;
      if (opcode == 1) return true;
    }
  }

  void ServeSocket(int fd, const std::string& head, std::string& buffer) {
    Write(fd,
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
          "Sec-WebSocket-Accept: " +
              AcceptOf(head) + "\r\n\r\n");
    std::string text;
    for (int number = 0; Hear(fd, buffer, text); ++number) {
      const Deed deed = script_(EnvironmentJson::parse(text), number);
      if (deed.broken) {
        Write(fd, deed.text);
      } else if (!deed.text.empty()) {
        std::string frame = "\x81\x7E";
        frame.push_back(static_cast<char>(deed.text.size() >> 8));
        frame.push_back(static_cast<char>(deed.text.size()));
        Write(fd, frame + deed.text);
      }
      if (deed.close) return;
    }
  }

  const Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> open_{0};
  std::thread acceptor_;
  std::vector<std::thread> connections_;  // the acceptor's, until it is joined
};

}  // namespace tidemill
