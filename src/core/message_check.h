// The rules for a message from outside before anything uses it: one table with every field of
// every message (message_rules.cc), applied where messages come in.
//
//   bytes -> ReadMessage -> (size, parse, every field in its bounds, fields that agree) -> message
//
// Checks that need more than the message itself (was the group issued, was the version
// published) are made by the loop that has it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"

namespace google::protobuf {
class Message;
}

namespace tidemill {

// Counts that a config bounds. The defaults are what any run may have; a loop narrows them to its
// own.
struct MessageLimits {
  uint64_t body_bytes = 256u << 20;  // of one message
  uint64_t text_bytes = 32u << 20;   // of one text, output or file
  uint64_t members = 65'536;         // episodes of a group
  uint64_t vocabulary = INT32_MAX;   // token ids are below it
  uint64_t tokens = 1u << 24;        // of one episode, prompt and observations included
  uint64_t turns = 10'000;           // of one episode
  uint64_t calls = 65'536;           // of one turn
  uint64_t files = 65'536;           // of one workspace
  uint64_t cases = 1u << 20;         // tests of one grading
  uint64_t entries =
      65'536;  // of other lists: diagnostics, failures, parts of a reward, words of a command
  uint64_t samples = 1u << 20;         // of one batch
  uint64_t wall_ms = 2 * 86'400'000u;  // of one box, as are the following
  uint64_t cpu_ms = 2 * 86'400'000u;
  uint64_t memory_mb = 1u << 20;
  uint64_t processes = 100'000;
  uint64_t output_kb = 1u << 20;
  uint64_t disk_mb = 1u << 20;
};

// kInvalid names the first field that is out of its bounds: "turns[2].logprobs[5]: nan is not
// between -50 and 0.001".
Status CheckMessage(const google::protobuf::Message& message, const MessageLimits& limits = {});

// Reads the bytes into `message`. kInvalid: too many, not this message, or out of bounds. A message
// that failed is not to be used.
Status ParseMessage(std::string_view bytes, google::protobuf::Message& message,
                    const MessageLimits& limits = {});
Status ReadMessage(std::string_view bytes, google::protobuf::Message& message,
                   const MessageLimits& limits = {});

}  // namespace tidemill
