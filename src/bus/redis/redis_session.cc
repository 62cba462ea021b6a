#include "bus/redis/redis_session.h"

#include <hiredis/hiredis.h>

#include <charconv>
#include <random>
#include <utility>

#include "bus/redis/redis_library.h"

namespace tidemill {
namespace {

// The value of "name:value\r\n" in what INFO says; empty if it is not there.
std::string_view InfoField(std::string_view info, std::string_view name) {
  size_t at = 0;
  while (at < info.size()) {
    size_t end = info.find('\n', at);
    if (end == std::string_view::npos) end = info.size();
    std::string_view line = info.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
      return line.substr(name.size() + 1);
    }
    at = end + 1;
  }
  return {};
}

template <typename Number>
bool TakeNumber(std::string_view& text, Number& number) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc()) return false;
  text.remove_prefix(parsed.ptr - text.data());
  return true;
}

// One command of the setting up: an error reply is a failure.
Result<ReplyPtr> Ask(RedisConnection& connection, std::initializer_list<std::string_view> args,
                     Duration timeout) {
  TM_ASSIGN_OR_RETURN(ReplyPtr reply, connection.Call(args, timeout));
  if (IsReplyError(*reply)) {
    const std::string text(ReplyText(*reply));
    const Code code = text.starts_with("NOPERM") ? Code::kInvalid : Code::kUnavailable;
    return Status(code, "redis: " + std::string(*args.begin()) + ": " + text);
  }
  return reply;
}

std::string RandomName() {
  std::random_device device;
  return std::to_string(device()) + std::to_string(device());
}

}  // namespace

Status CheckRedisInfo(std::string_view info) {
  std::string_view version = InfoField(info, "redis_version");
  int major = 0;
  std::string_view rest = version;
  if (!TakeNumber(rest, major) || major < 7) {
    return Invalid("the server is redis " + std::string(version) + "; 7.0 or later is required");
  }
  uint64_t maxmemory = 0;
  std::string_view limit = InfoField(info, "maxmemory");
  const std::string policy(InfoField(info, "maxmemory_policy"));
  if (TakeNumber(limit, maxmemory) && maxmemory > 0 && policy != "noeviction") {
    return Invalid("the server may evict messages: maxmemory is set and maxmemory-policy is " +
                   policy + "; set maxmemory-policy noeviction");
  }
  return Ok();
}

std::optional<TopicOptions> ParseRedisOptions(std::string_view text) {
  TopicOptions options;
  int64_t lease_ms = 0;
  if (!TakeNumber(text, options.capacity) || !TakeNumber(text, lease_ms) ||
      !TakeNumber(text, options.max_deliveries) || lease_ms <= 0) {
    return {};
  }
  options.lease = milliseconds(lease_ms);
  return options;
}

std::vector<ListedTopic> ParseRedisTopics(const redisReply& reply) {
  std::vector<ListedTopic> topics;
  if (reply.type != REDIS_REPLY_ARRAY) return topics;
  for (size_t i = 0; i + 1 < reply.elements; i += 2) {
    ListedTopic topic;
    topic.name = ReplyText(*reply.element[i]);
    const auto options = ParseRedisOptions(ReplyText(*reply.element[i + 1]));
    if (!options) continue;
    topic.options = *options;
    topics.push_back(std::move(topic));
  }
  return topics;
}

Result<RedisSession> OpenRedisSession(const RedisAddress& address, const RedisKeys& keys,
                                      std::string_view client, Duration timeout) {
  RedisSession session;
  const std::string where = "redis at " + address.Name();
  TM_ASSIGN_OR_RETURN(session.command, RedisConnection::Connect(address, timeout));
  TM_ASSIGN_OR_RETURN(session.reader, RedisConnection::Connect(address, timeout));
  RedisConnection& command = *session.command;
  TM_ASSIGN_OR_RETURN(ReplyPtr info, Ask(command, {"INFO"}, timeout));
  TM_RETURN_IF_ERROR(CheckRedisInfo(ReplyText(*info)).WithContext(where));

  // Functions use it, and a user without the right to it learns so best here.
  TM_ASSIGN_OR_RETURN(ReplyPtr time, Ask(command, {"TIME"}, timeout));
  // The names are for people who look at CLIENT LIST; a user without the right to them can do
  // without.
  (void)command.Call({"CLIENT", "SETNAME", client}, timeout);
  (void)session.reader->Call({"CLIENT", "SETNAME", client}, timeout);
  TM_ASSIGN_OR_RETURN(ReplyPtr id, Ask(*session.reader, {"CLIENT", "ID"}, timeout));
  session.reader_id = std::to_string(id->integer);

  TM_RETURN_IF_ERROR(LoadRedisLibrary(command, timeout));

  // Written only where it is missing: a server without memory left still answers who wants to make
  // room. A worker may not write it, and comes again when the learner has.
  TM_ASSIGN_OR_RETURN(ReplyPtr epoch, Ask(command, {"GET", keys.Epoch()}, timeout));
  if (epoch->type == REDIS_REPLY_NIL) {
    const Result<ReplyPtr> set = Ask(command, {"SET", keys.Epoch(), RandomName(), "NX"}, timeout);
    if (set.status().code() == Code::kInvalid) {
      return Unavailable(where + " knows nothing of this run yet: its learner begins it");
    }
    TM_RETURN_IF_ERROR(set.status());
    TM_ASSIGN_OR_RETURN(epoch, Ask(command, {"GET", keys.Epoch()}, timeout));
  }
  session.epoch = ReplyText(*epoch);
  TM_ASSIGN_OR_RETURN(ReplyPtr topics, Ask(command,
                                           {RedisFunctionCommand(RedisFunction::kTopics),
                                            RedisFunctionName(RedisFunction::kTopics), "1",
                                            keys.Topics(), keys.prefix},
                                           timeout));
  session.topics = ParseRedisTopics(*topics);
  return session;
}

}  // namespace tidemill
