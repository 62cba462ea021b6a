#include "bus/redis/topic_janitor.h"

#include <hiredis/hiredis.h>

#include <utility>

#include "core/log.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr Duration kOrphansEvery = std::chrono::seconds(60);
constexpr Duration kMemoryEvery = std::chrono::seconds(1);
constexpr std::string_view kInbox = "inbox.";

}  // namespace

std::string TopicOwner(std::string_view topic) {
  for (const std::string& own : {ToolCancelTopic(""), ToolBoxTopic("")}) {
    if (topic.starts_with(own)) return std::string(topic.substr(own.size()));
  }
  if (!topic.starts_with(kInbox)) return "";
  topic.remove_prefix(kInbox.size());
  const size_t dot = topic.rfind('.');  // a host's name may have dots
  return dot == std::string_view::npos ? "" : std::string(topic.substr(0, dot));
}

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

Result<size_t> RemoveOversized(RedisClient& client, const RedisKeys& keys,
                               const std::vector<std::string>& topics, size_t bytes_max) {
  size_t removed = 0;
  const std::string limit = std::to_string(bytes_max), pattern = keys.prefix + "body:*";
  for (const std::string& topic : topics) {
    TM_ASSIGN_OR_RETURN(ReplyPtr reply,
                        client.Call(RedisFunction::kPurge, keys.Stream(topic), {limit}));
    removed += static_cast<size_t>(reply->integer);
  }
  std::string cursor = "0";
  do {
    TM_ASSIGN_OR_RETURN(ReplyPtr page,
                        client.Do({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}));
    cursor = ReplyText(*page->element[0]);
    for (size_t i = 0; i < page->element[1]->elements; ++i) {
      const std::string_view key = ReplyText(*page->element[1]->element[i]);
      TM_ASSIGN_OR_RETURN(ReplyPtr length, client.Do({"STRLEN", key}));
      if (static_cast<size_t>(length->integer) <= bytes_max) continue;
      TM_RETURN_IF_ERROR(client.Do({"UNLINK", key}).status());
      ++removed;
    }
  } while (cursor != "0");
  return removed;
}

TopicJanitor::TopicJanitor(RedisBus& bus, RedisClient client, std::string_view run,
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
  const Result<size_t> removed = RemoveOversized(client_, keys_, bus_.Topics(), body_max_);
  LogError("redis has no memory left",
           {{"oversized bodies removed",
             removed.ok() ? std::to_string(*removed) : removed.status().message()}});
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
