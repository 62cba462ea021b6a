#include "bus/redis/redis_entry.h"

#include <hiredis/hiredis.h>

#include <charconv>
#include <utility>

#include "bus/redis/redis_connection.h"
#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

int64_t Number(std::string_view text) {
  int64_t number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);  // wrong: 0
  return number;
}

void TakeField(RedisEntry& entry, std::string_view field, std::string_view value) {
  if (field.size() != 1) return;
  switch (field[0]) {
    case 'b':
      entry.message.body = value;
      break;
    case 'k':
      entry.message.body_ref = value;
      break;
    case 'i':
      entry.message.id = value;
      break;
    case 'n':
      entry.message.deliveries = static_cast<uint32_t>(Number(value)) + 1;
      break;
    case 't':
      entry.dead_letter = true;
      entry.dead_topic = value;
      break;
    case 'r':
      entry.dead_reason = value;
      break;
    case 'c':
      entry.dead_deliveries = static_cast<uint32_t>(Number(value));
      break;
    case 'w':
      entry.died_ms = Number(value);
      break;
    default:
      break;  // of a later version
  }
}

}  // namespace

void RedisEntry::WrapDeadLetter() {
  v1::DeadLetter letter;
  letter.set_topic(dead_topic);
  letter.set_body(std::move(message.body));
  letter.set_reason(dead_reason);
  letter.set_deliveries(dead_deliveries);
  letter.set_died_ms(died_ms);
  message.body = letter.SerializeAsString();
}

std::vector<RedisEntry> ParseRedisEntries(redisReply& entries) {
  std::vector<RedisEntry> parsed;
  if (entries.type != REDIS_REPLY_ARRAY) return parsed;
  parsed.reserve(entries.elements);
  for (size_t i = 0; i < entries.elements; ++i) {
    const redisReply& one = *entries.element[i];
    if (one.type != REDIS_REPLY_ARRAY || one.elements != 2) continue;
    RedisEntry entry;
    entry.message.entry = ReplyText(*one.element[0]);
    entry.message.id = entry.message.entry;
    const redisReply& fields = *one.element[1];
    if (entry.message.entry.empty() || fields.type != REDIS_REPLY_ARRAY) continue;
    for (size_t f = 0; f + 1 < fields.elements; f += 2) {
      TakeField(entry, ReplyText(*fields.element[f]), ReplyText(*fields.element[f + 1]));
    }
    parsed.push_back(std::move(entry));
  }
  return parsed;
}

}  // namespace tidemill
