#include "bus/redis/topic_janitor.h"

#include "core/log.h"
#include "core/topics.h"

namespace tidemill {
namespace {

constexpr Duration kEvery = std::chrono::seconds(60);
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

TopicJanitor::TopicJanitor(RedisBus& bus, RedisRoster roster, std::set<std::string> keep)
    : bus_(bus), roster_(std::move(roster)), keep_(std::move(keep)), thread_([this] { Run(); }) {}

TopicJanitor::~TopicJanitor() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void TopicJanitor::Run() {
  MutexLock lock(mutex_);
  while (!changed_.WaitFor(lock, kEvery, [this]() TM_REQUIRES(mutex_) { return stop_; })) {
    lock.Unlock();
    Look();
    lock.Lock();
  }
}

void TopicJanitor::Look() {
  const Result<std::vector<RosterEntry>> workers = roster_.Workers();
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
