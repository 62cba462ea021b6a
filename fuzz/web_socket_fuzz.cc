// What an environment's server sends on a socket: whatever the bytes, however they are cut, the
// same messages and the same end.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "environments/web_socket.h"

namespace {

using tidemill::Status;
using tidemill::WebSocketReader;

// The key of RFC 6455's example, whose answer the corpus has.
constexpr char kKey[] = "dGhlIHNhbXBsZSBub25jZQ==";
constexpr WebSocketReader::Limits kLimits = {.head_bytes = 4096, .message_bytes = 4096};

struct Heard {
  std::vector<std::string> messages, pings;
  bool open = false, closed = false, ok = true;
  bool operator==(const Heard&) const = default;
};

Heard Read(const std::string& bytes, size_t first, size_t step) {
  WebSocketReader reader(kKey, kLimits);
  Heard heard;
  for (size_t at = 0; at < bytes.size() && heard.ok;) {
    const size_t n = at == 0 ? first : step;
    heard.ok = reader.Add(std::string_view(bytes).substr(at, n)).ok();
    at += n;
    for (std::string& one : reader.TakeMessages()) heard.messages.push_back(std::move(one));
    for (std::string& one : reader.TakePings()) heard.pings.push_back(std::move(one));
  }
  heard.open = reader.open();
  heard.closed = reader.closed();
  return heard;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t first = 1 + data[0], step = 1 + data[1] % 64;
  const std::string rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Half of the inputs begin behind a handshake that went well.
  const std::string bytes =
      data[0] % 2 == 0 ? rest
                       : "HTTP/1.1 101 X\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                         "\r\n" +
                             rest;
  const Heard whole = Read(bytes, bytes.size() + 1, 1), parts = Read(bytes, first, step);
  if (!(whole == parts)) std::abort();
  return 0;
}
