// What an environment's server sends on a ZeroMQ connection: whatever the bytes, however they are
// cut, the same messages, the same answers to heartbeats and the same end.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "environments/zero_mq.h"

namespace {

using tidemill::ZeroMqParts;
using tidemill::ZeroMqReader;

constexpr ZeroMqReader::Limits kLimits = {.message_bytes = 4096, .parts = 5};

struct HeardParts {
  std::vector<ZeroMqParts> messages;
  std::string replies;
  bool ready = false, ok = true;
  bool operator==(const HeardParts&) const = default;
};

HeardParts Read(const std::string& bytes, size_t first, size_t step) {
  ZeroMqReader reader(kLimits);
  HeardParts heard;
  for (size_t at = 0; at < bytes.size() && heard.ok;) {
    const size_t n = at == 0 ? first : step;
    heard.ok = reader.Add(std::string_view(bytes).substr(at, n)).ok();
    at += n;
    for (ZeroMqParts& one : reader.TakeMessages()) heard.messages.push_back(std::move(one));
    heard.replies += reader.TakeReplies();
  }
  heard.ready = reader.ready();
  return heard;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 8192) return 0;
  const size_t first = 1 + data[0], step = 1 + data[1] % 64;
  const std::string rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Half of the inputs begin behind a handshake that went well.
  const std::string bytes = (data[0] % 2 == 0 ? "" : tidemill::ZeroMqHello("ROUTER")) + rest;
  const HeardParts whole = Read(bytes, bytes.size() + 1, 1), parts = Read(bytes, first, step);
  if (!(whole == parts)) std::abort();
  return 0;
}
