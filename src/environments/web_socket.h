// The client's side of a WebSocket (RFC 6455) as a parser and a writer without I/O.
//
//   HandshakeText -> server -> bytes -> WebSocketReader -> whole messages, pings answered
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "core/status.h"

namespace tidemill {

// The request for a socket at `target`; `authority` is the value of Host, `key` 16 random bytes in
// base64.
std::string WebSocketRequest(const std::string& authority, const std::string& target,
                             const std::string& key);
std::string NewWebSocketKey(Random& random);

// A masked text frame, as a client must send it.
std::string WebSocketText(std::string_view text, Random& random);
// A masked close frame.
std::string WebSocketClose(Random& random);

// Reads what a server sends: its answer to the handshake, then frames. What it makes of one stream
// of bytes does not depend on how they are cut.
class WebSocketReader {
 public:
  struct Limits {
    size_t head_bytes = 16 * 1024;
    size_t message_bytes = size_t{16} << 20;
  };
  WebSocketReader(std::string key, Limits limits) : key_(std::move(key)), limits_(limits) {}

  // kUnavailable: the server refuses the handshake, breaks the protocol or a limit. Nothing may
  // follow then.
  Status Add(std::string_view bytes);

  bool open() const { return open_; }
  // The server said goodbye.
  bool closed() const { return closed_; }
  // Whole text and binary messages that came since the last call.
  std::vector<std::string> TakeMessages();
  // Bodies of pings that came since the last call; each is owed a pong.
  std::vector<std::string> TakePings();

 private:
  Status ReadHead();
  // False: more bytes are needed.
  Result<bool> ReadFrame();
  Status TakeFrame(uint8_t opcode, bool last, std::string_view body);

  const std::string key_;
  const Limits limits_;
  std::string buffer_;
  bool open_ = false;
  bool closed_ = false;
  bool in_message_ = false;
  std::string message_;
  std::vector<std::string> messages_, pings_;
};

// A masked pong frame.
std::string WebSocketPong(std::string_view body, Random& random);

}  // namespace tidemill
