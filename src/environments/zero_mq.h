// One side of a ZeroMQ connection (ZMTP 3, mechanism NULL) as a parser and a writer without I/O: a
// DEALER that connects to a ROUTER.
//
//   ZeroMqHello, ZeroMqMessage -> server -> bytes -> ZeroMqReader -> whole messages, pings answered
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

using ZeroMqParts = std::vector<std::string>;  // the frames of a message

// The greeting and what must follow it; `kind` is the socket's, "DEALER". Messages wait until the
// reader is ready: libzmq hangs up on those that come in the middle of its handshake.
std::string ZeroMqHello(std::string_view kind);
std::string ZeroMqMessage(const ZeroMqParts& parts);

// Reads what the other side sends. What it makes of one stream of bytes does not depend on how they
// are cut.
class ZeroMqReader {
 public:
  struct Limits {
    size_t message_bytes = size_t{64} << 20;  // of all frames of a message
    size_t parts = 16;
  };
  explicit ZeroMqReader(Limits limits) : limits_(limits) {}

  // kUnavailable: it speaks another protocol or mechanism, or breaks a limit. Nothing may follow
  // then.
  Status Add(std::string_view bytes);

  // The handshake is over.
  bool ready() const { return stage_ == Stage::kOpen; }
  std::vector<ZeroMqParts> TakeMessages();
  // What is owed to the other side: answers to its heartbeats.
  std::string TakeReplies();

 private:
  enum class Stage : uint8_t { kGreeting, kReady, kOpen };

  // False: more bytes are needed.
  Result<bool> ReadGreeting();
  Result<bool> ReadFrame();
  Status TakeCommand(std::string_view body);
  Status TakePart(std::string_view body, bool more);
  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }

  const Limits limits_;
  std::string buffer_;
  size_t at_ = 0;  // what is before it was read
  Stage stage_ = Stage::kGreeting;
  ZeroMqParts parts_;  // of the message that is not whole yet
  size_t part_bytes_ = 0;
  std::vector<ZeroMqParts> messages_;
  std::string replies_;
};

}  // namespace tidemill
