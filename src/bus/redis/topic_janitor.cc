#include "bus/redis/topic_janitor.h"

#include <hiredis/hiredis.h>

#include <utility>

#include "bus/redis/redis_session.h"
#include "core/log.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr Duration kOrphansEvery = std::chrono::seconds(60);
constexpr Duration kMemoryEvery = std::chrono::seconds(1);

Result<std::vector<ListedTopic>> ListTopics(RedisClient& client, const RedisKeys& keys) {
  TM_ASSIGN_OR_RETURN(ReplyPtr reply,
                      client.Call(RedisFunction::kTopics, keys.Topics(), {keys.prefix}));
  return ParseRedisTopics(*reply);
}

template <typename Use>
Status ForEachBody(RedisClient& client, const RedisKeys& keys, Use use) {
  const std::string pattern = keys.prefix + "body:*";
  std::string cursor = "0";
  do {
    TM_ASSIGN_OR_RETURN(ReplyPtr page,
                        client.Do({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}));
    cursor = ReplyText(*page->element[0]);
    for (size_t i = 0; i < page->element[1]->elements; ++i) {
      TM_RETURN_IF_ERROR(use(std::string(ReplyText(*page->element[1]->element[i]))));
    }
  } while (cursor != "0");
  return Ok();
}

// The keys of bodies that the messages of `key` name.
Status AddNamed(RedisClient& client, const std::string& key, std::string_view how, std::string from,
                std::set<std::string, std::less<>>& named) {
  while (!from.empty()) {
    TM_ASSIGN_OR_RETURN(ReplyPtr reply, client.Call(RedisFunction::kBodies, key, {how, from}));
    for (size_t i = 0; i < reply->element[1]->elements; ++i) {
      named.emplace(ReplyText(*reply->element[1]->element[i]));
    }
    from = ReplyText(*reply->element[0]);
  }
  return Ok();
}

}  // namespace

std::vector<std::string> OrphanTopics(const std::vector<std::string>& topics,
                                      const std::set<std::string>& present,
                                      std::set<std::string>& suspects) {
  std::vector<std::string> orphans;
  std::set<std::string> ownerless;
  for (const std::string& topic : topics) {
    const std::string owner = TopicOwner(topic);
    if (owner.empty() || present.count(owner) != 0) continue;
    if (suspects.count(topic) != 0)
      orphans.push_back(topic);
    else
      ownerless.insert(topic);
  }
  suspects = std::move(ownerless);
  return orphans;
}

Result<size_t> RemoveOversized(RedisClient& client, const RedisKeys& keys, size_t bytes_max) {
  size_t removed = 0;
  const std::string limit = std::to_string(bytes_max);
  TM_ASSIGN_OR_RETURN(const std::vector<ListedTopic> topics, ListTopics(client, keys));
  for (const ListedTopic& topic : topics) {
    const std::string stream = keys.Stream(topic.name), state = keys.State(topic.name);
    TM_ASSIGN_OR_RETURN(ReplyPtr reply, client.Call(RedisFunction::kPurge, stream, {limit}));
    removed += static_cast<size_t>(reply->integer);
    const std::string most = std::to_string(2 * topic.options.capacity);
    do {
      TM_ASSIGN_OR_RETURN(reply, client.Call(RedisFunction::kCut, stream, {most, state}));
      removed += static_cast<size_t>(reply->integer);
    } while (reply->integer > 0);
  }
  TM_RETURN_IF_ERROR(ForEachBody(client, keys, [&](const std::string& key) -> Status {
    TM_ASSIGN_OR_RETURN(ReplyPtr length, client.Do({"STRLEN", key}));
    if (static_cast<size_t>(length->integer) <= bytes_max) return Ok();
    ++removed;
    return client.Do({"UNLINK", key}).status();
  }));
  return removed;
}

Result<size_t> RemoveUnnamed(RedisClient& client, const RedisKeys& keys,
                             std::set<std::string>& suspects) {
  std::set<std::string, std::less<>> named;
  TM_ASSIGN_OR_RETURN(const std::vector<ListedTopic> topics, ListTopics(client, keys));
  for (const ListedTopic& topic : topics) {
    if (topic.name == kDeadTopic) continue;
    TM_RETURN_IF_ERROR(AddNamed(client, keys.Stream(topic.name), "stream", "-", named));
    TM_RETURN_IF_ERROR(AddNamed(client, keys.Delayed(topic.name), "delayed", "0", named));
  }
  size_t removed = 0;
  std::set<std::string> unnamed;
  TM_RETURN_IF_ERROR(ForEachBody(client, keys, [&](const std::string& key) -> Status {
    if (named.contains(key)) return Ok();
    if (suspects.count(key) == 0) {
      unnamed.insert(key);
      return Ok();
    }
    ++removed;
    return client.Do({"UNLINK", key}).status();
  }));
  suspects = std::move(unnamed);
  return removed;
}

TopicJanitor::TopicJanitor(BrokerBus& bus, RedisClient client, std::string_view run,
                           std::set<std::string> keep, size_t body_max)
    : bus_(bus),
      keys_(run),
      client_(std::move(client)),
      body_max_(body_max),
      keep_(std::move(keep)),
      thread_([this] { Run(); }) {}

TopicJanitor::~TopicJanitor() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void TopicJanitor::Run() {
  Time orphans_at = std::chrono::steady_clock::now() + kOrphansEvery;
  MutexLock lock(mutex_);
  while (!changed_.WaitFor(lock, kMemoryEvery, [this]() TM_REQUIRES(mutex_) { return stop_; })) {
    lock.Unlock();
    MakeRoom();
    if (const Time now = std::chrono::steady_clock::now(); now >= orphans_at) {
      orphans_at = now + kOrphansEvery;
      RemoveOrphans();
    }
    lock.Lock();
  }
}

void TopicJanitor::MakeRoom() {
  const uint64_t refused = bus_.Stats().no_memory;
  if (std::exchange(no_memory_, refused) == refused) return;
  const auto told = [](const Result<size_t>& removed) {
    return removed.ok() ? std::to_string(*removed) : removed.status().message();
  };
  const Result<size_t> oversized = RemoveOversized(client_, keys_, body_max_);
  const Result<size_t> unnamed = RemoveUnnamed(client_, keys_, unnamed_);
  LogError("redis has no memory left", {{"removed above the bounds", told(oversized)},
                                        {"bodies of no message", told(unnamed)}});
}

void TopicJanitor::RemoveOrphans() {
  const Result<std::vector<RosterEntry>> workers = ReadRoster(client_, keys_);
  if (!workers.ok()) return;  // whoever cannot be seen is not gone
  std::set<std::string> present = keep_;
  for (const RosterEntry& entry : *workers) {
    if (!entry.lost()) present.insert(entry.beat.worker());
  }
  for (const std::string& topic : OrphanTopics(bus_.Topics(), present, suspects_)) {
    LogInfo("removing the topic of a worker that is gone", {{"topic", topic}});
    (void)bus_.Remove(topic);
  }
}

}  // namespace tidemill
