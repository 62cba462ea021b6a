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
  TM_ASSIGN_OR_RETURN(ReplyPtr reply,
                      client_.Call(RedisFunction::kDepths, keys.Topics(), {keys.prefix}));
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
                        client_.Call(RedisFunction::kDelayed, keys.Delayed(topic),
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
  TM_ASSIGN_OR_RETURN(ReplyPtr reply, client_.Call(RedisFunction::kLetter, keys.Stream(kDeadTopic),
                                                   {keys.prefix, id, how}));
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
