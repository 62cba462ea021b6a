// Entries of a stream as the server sends them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bus/client_view.h"

struct redisReply;

namespace tidemill {

// Begins the reference to a body that lies in the blob store; its hash follows.
inline constexpr std::string_view kBlobRef = "blob:";

// One entry: a delivery, and for the dead-letter topic what is known of the death.
struct RedisEntry {
  FetchedMessage message;  // its times are not filled in
  bool dead_letter = false;
  std::string dead_topic;
  std::string dead_reason;
  uint32_t dead_deliveries = 0;
  int64_t died_ms = 0;

  // Makes the body of a dead letter the v1::DeadLetter it stands for.
  void WrapDeadLetter();
};

// The entries of one stream, [[id, [field, value, ..]], ..]; what has another shape is left out.
std::vector<RedisEntry> ParseRedisEntries(redisReply& entries);

}  // namespace tidemill
