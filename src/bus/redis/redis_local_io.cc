// The side of RedisLocal that the I/O thread uses.
#include <iterator>
#include <utility>

#include "bus/redis/redis_local.h"

namespace tidemill {
namespace {

constexpr const char* kUnreadDelayMs = "1000";
constexpr size_t kGoneMax = 1024;
constexpr Duration kGoneFor = std::chrono::seconds(1);

}  // namespace

std::string RedisOptionsText(const TopicOptions& options) {
  return std::to_string(options.capacity) + " " +
         std::to_string(std::chrono::ceil<milliseconds>(options.lease).count()) + " " +
         std::to_string(options.max_deliveries);
}

std::vector<RedisCall> RedisLocal::TakeCalls(size_t count_max, size_t bytes_max) {
  std::vector<RedisCall> taken;
  size_t bytes = 0;
  while (!calls_.empty() && taken.size() < count_max) {
    const size_t size = calls_.front().body.size();
    if (!taken.empty() && bytes + size > bytes_max) break;
    bytes += size;
    bytes_ -= size;
    taken.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
  under_way_ += taken.size();
  return taken;
}

void RedisLocal::Done(const RedisCall& call) {
  --under_way_;
  RedisTopic* topic = Find(call.topic);
  if (topic != nullptr && topic->generation == call.generation) {
    topic->size_change -= call.size_change;
    if (call.letter != 'q') topic->owed_change -= call.owed_change;
  }
  if (call.letter == 'q') {
    RedisTopic* inbox = Find(call.a);
    if (inbox != nullptr && inbox->generation == call.inbox_generation) {
      inbox->owed_change -= call.owed_change;
    }
  }
  if (topic != nullptr && (call.letter == 'o' || call.letter == 'O' || call.letter == 'd')) {
    --topic->opening;
    if (topic->opening == 0 && !topic->open && topic->listeners == 0) {
      topics_.erase(topics_.find(topic->name));
    }
  }
}

void RedisLocal::PutBack(std::vector<RedisCall> calls) {
  under_way_ -= calls.size();
  for (const RedisCall& call : calls) bytes_ += call.body.size();
  calls_.insert(calls_.begin(), std::make_move_iterator(calls.begin()),
                std::make_move_iterator(calls.end()));
}

void RedisLocal::OpenAgain() {
  for (auto& [name, topic] : topics_) {
    topic.made = 0;
    if (!topic.open || !topic.ours) continue;
    ++topic.opening;
    calls_.push_front({.letter = name == kDeadTopic ? 'O' : 'o',
                       .topic = name,
                       .generation = topic.generation,
                       .a = RedisOptionsText(topic.options)});
  }
}

void RedisLocal::OpenDeadLetters(const TopicOptions& options) {
  RedisTopic& topic = FindOrAdd(kDeadTopic);
  topic.generation = next_generation_++;
  topic.open = topic.ours = topic.heard = true;
  topic.options = options;
  Push(topic, {.letter = 'O', .a = RedisOptionsText(options)});
}

void RedisLocal::InboxGone(std::string_view inbox) {
  const Time now = clock_.Now();
  if (gone_.size() >= kGoneMax) std::erase_if(gone_, [&](auto& one) { return one.second <= now; });
  if (gone_.size() < kGoneMax) gone_[std::string(inbox)] = now + kGoneFor;
}

// A topic of ours has the options we gave it, and ticks tell what becomes of it; one on its way in
// or out is not what was heard of.
void RedisLocal::HeardAll(const std::vector<RedisListedTopic>& listed) {
  std::set<std::string_view> names;
  for (const RedisListedTopic& one : listed) {
    names.insert(one.name);
    RedisTopic& topic = FindOrAdd(one.name);
    if (topic.ours || topic.opening > 0) continue;
    gone_.erase(one.name);  // it is back
    if (!topic.open) topic.generation = next_generation_++;
    topic.open = true;
    topic.options = one.options;
  }
  for (auto it = topics_.begin(); it != topics_.end();) {
    RedisTopic& topic = it->second;
    if (topic.open && !topic.ours && topic.opening == 0 && names.count(it->first) == 0) Gone(topic);
    const bool useless = !topic.open && topic.opening == 0 && topic.listeners == 0;
    it = useless ? topics_.erase(it) : std::next(it);
  }
}

void RedisLocal::Gone(RedisTopic& topic) {
  std::erase_if(held_, [&](const auto& one) { return one.second.topic == topic.name; });
  extends_.erase(topic.name);
  RedisTopic fresh;
  fresh.name = topic.name;
  fresh.listeners = topic.listeners;
  fresh.opening = topic.opening;
  fresh.generation = next_generation_++;
  topic = std::move(fresh);
}

void RedisLocal::Lost(uint64_t token) {
  held_.erase(token);
}

void RedisLocal::GiveBack(RedisTopic& topic, std::string entry) {
  ++given_back_;
  Push(topic, {.letter = 'u', .a = std::move(entry), .renewed = clock_.Now()});
}

void RedisLocal::EndUnread(RedisTopic& topic, std::string entry, std::string_view reason,
                           bool gone) {
  RedisCall call = {.letter = gone ? 'x' : 'b',
                    .a = std::move(entry),
                    .b = gone ? std::string(reason) : kUnreadDelayMs,
                    .size_change = gone ? -1 : 0,
                    .renewed = clock_.Now()};
  Push(topic, std::move(call));
}

void RedisLocal::RenewEnding(RedisCall& call, Time now) {
  if (!call.ends_lease()) return;
  RedisTopic* topic = Find(call.topic);
  if (topic == nullptr || topic->generation != call.generation) return;
  if (now - call.renewed <= topic->options.lease / 3) return;
  call.renewed = now;
  extends_[call.topic].push_back({call.a, 0});
}

void RedisLocal::TendLeases(Duration linger) {
  const Time now = clock_.Now();
  for (auto& [name, topic] : topics_) {
    if (!topic.open || topic.fetched.empty()) continue;
    if (now - topic.fetched.front().fetched > linger) {
      topic.demand = 0;
      for (RedisFetched& message : std::exchange(topic.fetched, {})) {
        GiveBack(topic, std::move(message.entry));
      }
      continue;
    }
    for (RedisFetched& message : topic.fetched) {
      if (now - message.renewed <= topic.options.lease / 3) continue;
      message.renewed = now;
      extends_[name].push_back({message.entry, 0});
    }
  }
  // A call that waits, say behind a topic that is full, must not lose the lease it is about to end.
  for (RedisCall& call : calls_) RenewEnding(call, now);
  std::erase_if(held_, [&](const auto& one) { return one.second.deadline <= now; });
}

std::set<std::string> RedisLocal::Entries(std::string_view name) {
  std::set<std::string> entries;
  for (const auto& [token, held] : held_) {
    if (held.topic == name) entries.insert(held.message.entry);
  }
  if (RedisTopic* topic = Find(name); topic != nullptr) {
    for (const RedisFetched& message : topic->fetched) entries.insert(message.entry);
  }
  for (const RedisCall& call : calls_) {
    if (call.topic == name && call.ends_lease()) entries.insert(call.a);
  }
  return entries;
}

}  // namespace tidemill
