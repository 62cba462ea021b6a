#include "bus/redis/redis_inspector.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "bus/redis/redis_session.h"

namespace tidemill {
namespace {

constexpr std::string_view kEpochSuffix = "}:epoch";
constexpr size_t kPage = 100;

// KEYS: the hash of topics. ARGV: prefix. Reply: for each topic its name, options, in the stream,
// leased, delayed, owed, died, ms since the oldest that waits, and since the oldest held, was
// published (-1: none).
constexpr const char* kTopics = R"lua(
local prefix = ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function age(entries)
  if not entries[1] then return -1 end
  local id, fields = entries[1][1], entries[1][2]
  for i = 1, #fields, 2 do
    if fields[i] == 'i' then id = fields[i + 1] end
  end
  return math.max(0, now - tonumber(string.match(id, '^%d+')))
end
local out = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local base = prefix .. 't:' .. all[i]
  local stream, state = base .. ':stream', base .. ':state'
  local leased, held, waits = 0, -1, -1
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if not groups.err and groups[1] then
    local last = '0-0'
    for f = 1, #groups[1], 2 do
      if groups[1][f] == 'last-delivered-id' then last = groups[1][f + 1] end
    end
    local pending = redis.call('XPENDING', stream, 'g')
    leased = pending[1]
    if leased > 0 then held = age(redis.call('XRANGE', stream, pending[2], '+', 'COUNT', 1)) end
    waits = age(redis.call('XRANGE', stream, '(' .. last, '+', 'COUNT', 1))
  end
  out[#out + 1] = {all[i], all[i + 1], redis.call('XLEN', stream), leased,
                   redis.call('ZCARD', base .. ':delayed'),
                   tonumber(redis.call('HGET', state, 'owed') or 0),
                   tonumber(redis.call('HGET', state, 'dead') or 0), waits, held}
end
return out
)lua";

// KEYS: the stream of dead letters. ARGV: prefix, entry, "retry" or "drop". Reply: "ok" or what
// hinders.
constexpr const char* kEndLetter = R"lua(
local prefix, id, how = ARGV[1], ARGV[2], ARGV[3]
local e = redis.call('XRANGE', KEYS[1], id, id)
if not e[1] then return 'missing' end
local f = {}
for i = 1, #e[1][2], 2 do f[e[1][2][i]] = e[1][2][i + 1] end
local own_key = f.k and string.sub(f.k, 1, #prefix) == prefix
if how == 'retry' then
  local options = redis.call('HGET', prefix .. 'topics', f.t)
  if not options then return 'notopic ' .. f.t end
  local stream = prefix .. 't:' .. f.t .. ':stream'
  local size = redis.call('XLEN', stream) + redis.call('ZCARD', prefix .. 't:' .. f.t .. ':delayed')
  if size >= tonumber(string.match(options, '^%d+')) then return 'full ' .. f.t end
  if own_key and redis.call('PEXPIRE', f.k, 86400000) == 0 then return 'nobody' end
  if f.k then redis.call('XADD', stream, '*', 'k', f.k) else redis.call('XADD', stream, '*', 'b', f.b or '') end
elseif own_key then
  redis.call('UNLINK', f.k)
end
redis.pcall('XACK', KEYS[1], 'g', id)
redis.call('XDEL', KEYS[1], id)
return 'ok'
)lua";

// KEYS: the delayed messages of a topic. ARGV: the first and the last rank. Reply: as of a stream.
constexpr const char* kDelayed = R"lua(
local out = {}
for i, packed in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2])) do
  out[i] = {'0-' .. i, cmsgpack.unpack(packed)}
end
return out
)lua";

int64_t Number(const redisReply& reply) {
  return reply.type == REDIS_REPLY_INTEGER ? reply.integer : 0;
}

uint64_t Count(const redisReply& reply) {
  return static_cast<uint64_t>(std::max<int64_t>(0, Number(reply)));
}

Duration Age(const redisReply& reply) {
  return milliseconds(std::max<int64_t>(0, Number(reply)));
}

// "1767225600000-0"; a wrong one would be an error of the server's that helps nobody.
Status CheckEntryId(std::string_view id) {
  const size_t dash = id.find('-');
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.size() <= 20 &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
  };
  if (dash != std::string_view::npos && digits(id.substr(0, dash)) && digits(id.substr(dash + 1))) {
    return Ok();
  }
  return Invalid("\"" + std::string(id) +
                 "\" is not the id of a dead letter; expected one like 1767225600000-0");
}

DeadLetterEntry ToLetter(RedisEntry entry) {
  DeadLetterEntry letter;
  letter.id = std::move(entry.message.entry);
  letter.topic = std::move(entry.dead_topic);
  letter.reason = std::move(entry.dead_reason);
  letter.deliveries = entry.dead_deliveries;
  letter.died_ms = entry.died_ms;
  letter.body = std::move(entry.message.body);
  letter.body_ref = std::move(entry.message.body_ref);
  return letter;
}

}  // namespace

Result<RedisInspector> RedisInspector::Connect(std::string_view url, Duration timeout) {
  TM_ASSIGN_OR_RETURN(RedisClient client, RedisClient::Connect(url, timeout));
  return RedisInspector(std::move(client));
}

Result<std::vector<std::string>> RedisInspector::Runs() {
  std::set<std::string> runs;
  std::string cursor = "0";
  do {
    TM_ASSIGN_OR_RETURN(ReplyPtr page,
                        client_.Do({"SCAN", cursor, "MATCH", "{*}:epoch", "COUNT", "1000"}));
    if (page->type != REDIS_REPLY_ARRAY || page->elements != 2) {
      return Unavailable("redis: invalid answer to SCAN");
    }
    cursor = ReplyText(*page->element[0]);
    for (size_t i = 0; i < page->element[1]->elements; ++i) {
      const std::string_view key = ReplyText(*page->element[1]->element[i]);
      if (key.size() > kEpochSuffix.size() + 1) {
        runs.emplace(key.substr(1, key.size() - 1 - kEpochSuffix.size()));
      }
    }
  } while (cursor != "0");
  return std::vector<std::string>(runs.begin(), runs.end());
}

Status RedisInspector::CheckRun(std::string_view run) {
  TM_RETURN_IF_ERROR(CheckRedisRun(run));
  TM_ASSIGN_OR_RETURN(ReplyPtr there, client_.Do({"EXISTS", RedisKeys(run).Epoch()}));
  if (Number(*there) != 0) return Ok();
  TM_ASSIGN_OR_RETURN(const std::vector<std::string> runs, Runs());
  std::string names;
  for (const std::string& name : runs) names += (names.empty() ? "" : ", ") + name;
  return NotFound("redis at " + client_.address().Name() + " has no run \"" + std::string(run) +
                  "\"; " + (names.empty() ? "it has no runs" : "its runs are: " + names));
}

Result<std::vector<TopicState>> RedisInspector::Topics(std::string_view run) {
  const RedisKeys keys(run);
  TM_ASSIGN_OR_RETURN(ReplyPtr reply, client_.Eval(kTopics, keys.Topics(), {keys.prefix}));
  std::vector<TopicState> topics;
  for (size_t i = 0; i < reply->elements; ++i) {
    const redisReply& row = *reply->element[i];
    if (row.type != REDIS_REPLY_ARRAY || row.elements != 9) continue;
    TopicState topic;
    topic.name = ReplyText(*row.element[0]);
    const auto options = ParseRedisOptions(ReplyText(*row.element[1]));
    if (options) topic.options = *options;
    topic.leased = Count(*row.element[3]);
    const uint64_t in_stream = Count(*row.element[2]);
    topic.ready = in_stream - std::min(in_stream, topic.leased);
    topic.delayed = Count(*row.element[4]);
    topic.owed = Count(*row.element[5]);
    topic.died = Count(*row.element[6]);
    topic.oldest_ready = Age(*row.element[7]);
    topic.oldest_leased = Age(*row.element[8]);
    topics.push_back(std::move(topic));
  }
  std::sort(topics.begin(), topics.end(),
            [](const TopicState& a, const TopicState& b) { return a.name < b.name; });
  return topics;
}

Status RedisInspector::VisitBodies(const RedisKeys& keys, std::vector<RedisEntry> entries,
                                   const std::function<void(std::string_view body)>& visit) {
  for (RedisEntry& entry : entries) {
    if (entry.message.body_ref.empty()) {
      visit(entry.message.body);
    } else if (entry.message.body_ref.starts_with(keys.prefix)) {
      TM_ASSIGN_OR_RETURN(ReplyPtr body, client_.Do({"GET", entry.message.body_ref}));
      if (body->type == REDIS_REPLY_STRING) visit(ReplyText(*body));
    }
  }
  return Ok();
}

Status RedisInspector::ForEachDelayed(const RedisKeys& keys, std::string_view topic,
                                      const std::function<void(std::string_view body)>& visit) {
  for (size_t from = 0;; from += kPage) {
    TM_ASSIGN_OR_RETURN(ReplyPtr page,
                        client_.Eval(kDelayed, keys.Delayed(topic),
                                     {std::to_string(from), std::to_string(from + kPage - 1)}));
    const size_t size = page->elements;
    TM_RETURN_IF_ERROR(VisitBodies(keys, ParseRedisEntries(*page), visit));
    if (size < kPage) return Ok();
  }
}

Status RedisInspector::ForEachMessage(std::string_view run, std::string_view topic,
                                      const std::function<void(std::string_view body)>& visit) {
  const RedisKeys keys(run);
  // Before and after: a message moves between the two in both directions.
  TM_RETURN_IF_ERROR(ForEachDelayed(keys, topic, visit));
  std::string from = "-";
  for (bool more = true; more;) {
    TM_ASSIGN_OR_RETURN(ReplyPtr page, client_.Do({"XRANGE", keys.Stream(topic), from, "+", "COUNT",
                                                   std::to_string(kPage)}));
    std::vector<RedisEntry> entries = ParseRedisEntries(*page);
    more = entries.size() == kPage;
    if (!entries.empty()) from = "(" + entries.back().message.entry;
    TM_RETURN_IF_ERROR(VisitBodies(keys, std::move(entries), visit));
  }
  return ForEachDelayed(keys, topic, visit);
}

Result<std::vector<DeadLetterEntry>> RedisInspector::DeadLetters(std::string_view run,
                                                                 const DeadQuery& query) {
  const std::string stream = RedisKeys(run).Stream(kDeadTopic);
  std::vector<DeadLetterEntry> letters;
  std::string from = "-";
  while (letters.size() < query.limit) {
    TM_ASSIGN_OR_RETURN(ReplyPtr page,
                        client_.Do({"XRANGE", stream, from, "+", "COUNT", std::to_string(kPage)}));
    std::vector<RedisEntry> entries = ParseRedisEntries(*page);
    for (RedisEntry& entry : entries) {
      from = "(" + entry.message.entry;
      if (!query.topic.empty() && entry.dead_topic != query.topic) continue;
      if (letters.size() < query.limit) letters.push_back(ToLetter(std::move(entry)));
    }
    if (entries.size() < kPage) break;
  }
  return letters;
}

Result<DeadLetterEntry> RedisInspector::DeadLetter(std::string_view run, std::string_view id) {
  TM_RETURN_IF_ERROR(CheckEntryId(id));
  const RedisKeys keys(run);
  TM_ASSIGN_OR_RETURN(ReplyPtr page, client_.Do({"XRANGE", keys.Stream(kDeadTopic), id, id}));
  std::vector<RedisEntry> entries = ParseRedisEntries(*page);
  if (entries.empty())
    return NotFound("run \"" + std::string(run) + "\" has no dead letter " + std::string(id));
  DeadLetterEntry letter = ToLetter(std::move(entries[0]));
  if (letter.body_ref.starts_with(keys.prefix)) {
    TM_ASSIGN_OR_RETURN(ReplyPtr body, client_.Do({"GET", letter.body_ref}));
    if (body->type == REDIS_REPLY_STRING) letter.body = ReplyText(*body);
  }
  return letter;
}

Status RedisInspector::EndLetter(std::string_view run, std::string_view id, std::string_view how) {
  TM_RETURN_IF_ERROR(CheckEntryId(id));
  const RedisKeys keys(run);
  TM_ASSIGN_OR_RETURN(ReplyPtr reply,
                      client_.Eval(kEndLetter, keys.Stream(kDeadTopic), {keys.prefix, id, how}));
  const std::string text(ReplyText(*reply));
  const std::string letter = "dead letter " + std::string(id);
  if (text == "ok") return Ok();
  if (text == "missing") return NotFound("run \"" + std::string(run) + "\" has no " + letter);
  if (text == "nobody") return NotFound(letter + ": its body has expired; drop it");
  if (text.starts_with("notopic ")) {
    return NotFound(letter + ": topic " + text.substr(8) + " no longer exists; drop it");
  }
  if (text.starts_with("full ")) {
    return Full(letter + ": the topic " + text.substr(5) + " is full; try again later");
  }
  return Internal(letter + ": redis answered \"" + text + "\"");
}

Status RedisInspector::Retry(std::string_view run, std::string_view id) {
  return EndLetter(run, id, "retry");
}
Status RedisInspector::Drop(std::string_view run, std::string_view id) {
  return EndLetter(run, id, "drop");
}

}  // namespace tidemill
