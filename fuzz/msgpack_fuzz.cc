// What an environment's server sends in MessagePack: a value within the limits, or a refusal. What
// was read and is written again reads the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "environments/msgpack.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;
  constexpr MsgpackLimits kLimits = {.bytes = 1 << 16, .values = 1 << 12, .depth = 32};
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto read = ReadMsgpack(bytes, kLimits);
  if (!read.ok()) return 0;
  const std::string written = WriteMsgpack(*read);
  const auto again = ReadMsgpack(written);
  // Compared as bytes: a NaN is not equal to itself.
  if (!again.ok() || WriteMsgpack(*again) != written) std::abort();
  return 0;
}
