// Any text as a redis URL: refused, or an address whose name reads back to the same place.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bus/redis/redis_url.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto address = tidemill::ParseRedisUrl(text);
  if (!address.ok()) return 0;
  auto again = tidemill::ParseRedisUrl("redis://" + address->Name());
  if (!again.ok() || again->host != address->host || again->port != address->port ||
      again->db != address->db) {
    std::abort();
  }
  return 0;
}
