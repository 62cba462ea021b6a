#include "bus/client_view.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "bus/topic_rules.h"

namespace tidemill {
namespace {

constexpr Duration kRemovedFor = std::chrono::hours(1);
// Lua's numbers are exact up to 2^53.
constexpr size_t kCapacityMax = 1'000'000'000'000;

Status Expired(const Lease& lease) {
  return NotFound("the lease of message " + lease.id + " in \"" + lease.topic + "\" has expired");
}

Status CheckBody(std::string_view topic, size_t bytes) {
  if (bytes <= kBodyMax) return Ok();
  return Invalid("a message of " + std::to_string(bytes) + " bytes for \"" + std::string(topic) +
                 "\": at most " + std::to_string(kBodyMax) + " are sent over the bus");
}

}  // namespace

ViewedTopic* ClientView::Find(std::string_view topic) {
  auto found = topics_.find(topic);
  return found == topics_.end() ? nullptr : &found->second;
}

ViewedTopic& ClientView::FindOrAdd(std::string_view topic) {
  auto found = topics_.find(topic);
  if (found == topics_.end()) {
    found = topics_.emplace(std::string(topic), ViewedTopic()).first;
    found->second.name = topic;
  }
  return found->second;
}

void ClientView::Push(ViewedTopic& topic, BusCall call) {
  call.topic = topic.name;
  call.generation = topic.generation;
  topic.size_change += call.size_change;
  if (call.letter == 'q') {
    ViewedTopic* inbox = Find(call.a);
    call.inbox_generation = inbox->generation;
    inbox->owed_change += call.owed_change;
  } else {
    topic.owed_change += call.owed_change;
  }
  if (call.letter == 'o' || call.letter == 'O' || call.letter == 'd') ++topic.opening;
  bytes_ += call.body.size();
  calls_.push_back(std::move(call));
}

bool ClientView::OutboxFull() const {
  return calls_.size() + under_way_ >= options_.calls_max || bytes_ >= options_.bytes_max;
}

Status ClientView::Open(std::string_view name, const TopicOptions& options) {
  TM_RETURN_IF_ERROR(CheckTopic(name, options));
  ViewedTopic& topic = FindOrAdd(name);
  if (!topic.open) topic.generation = next_generation_++;
  topic.open = true;
  topic.ours = true;
  topic.heard = true;
  topic.options = options;
  topic.options.capacity = std::min(options.capacity, kCapacityMax);
  topic.tick_now = true;
  gone_.erase(topic.name);
  Push(topic, {.letter = 'o', .a = TopicOptionsText(topic.options)});
  return Ok();
}

Status ClientView::Publish(std::string_view name, std::string body) {
  ViewedTopic* topic = Find(name);
  if (topic == nullptr || !topic->open) return NoTopic(name);
  TM_RETURN_IF_ERROR(CheckBody(name, body.size()));
  if (OutboxFull()) return Full("the outbox to the broker is full");
  if (!topic->HasRoom()) {
    topic->tick_now = true;  // by the next try we may know better
    return TopicFull(name);
  }
  Push(*topic, {.letter = 'p', .body = std::move(body), .size_change = 1});
  return Ok();
}

Status ClientView::PublishRequest(std::string_view name, std::string_view inbox_name,
                                  std::string body) {
  ViewedTopic* topic = Find(name);
  ViewedTopic* inbox = Find(inbox_name);
  if (inbox == nullptr || !inbox->open) return NoTopic(inbox_name);
  if (topic == nullptr || !topic->open) return NoTopic(name);
  TM_RETURN_IF_ERROR(CheckBody(name, body.size()));
  if (OutboxFull()) return Full("the outbox to the broker is full");
  if (!inbox->HasRoom()) {
    inbox->tick_now = true;
    return TopicFull(inbox_name);
  }
  if (!topic->HasRoom(topic == inbox ? 2 : 1)) {
    topic->tick_now = true;
    return TopicFull(name);
  }
  Push(*topic, {.letter = 'q',
                .a = inbox->name,
                .body = std::move(body),
                .size_change = 1,
                .owed_change = 1});
  return Ok();
}

// An inbox nobody here has heard of may have been opened a moment ago by another process: the
// server decides, and what it says is remembered for a while.
Status ClientView::PublishReply(std::string_view name, std::string body) {
  TM_RETURN_IF_ERROR(CheckBody(name, body.size()));
  auto gone = gone_.find(name);
  if (gone != gone_.end()) {
    if (clock_.Now() < gone->second) return NoTopic(name);
    gone_.erase(gone);
  }
  BusCall call = {.letter = 'r', .body = std::move(body)};
  ViewedTopic* inbox = Find(name);
  if (inbox != nullptr && inbox->open) {
    call.size_change = 1;
    call.owed_change = inbox->owed + inbox->owed_change > 0 ? -1 : 0;
    Push(*inbox, std::move(call));
  } else {
    call.topic = name;
    bytes_ += call.body.size();
    calls_.push_back(std::move(call));
  }
  return Ok();
}

Status ClientView::Forgive(std::string_view name, size_t count) {
  ViewedTopic* inbox = Find(name);
  if (inbox == nullptr || !inbox->open) return NoTopic(name);
  const int64_t owed = std::max<int64_t>(0, inbox->owed + inbox->owed_change);
  const int forgiven = static_cast<int>(std::min<uint64_t>(count, owed));
  Push(*inbox, {.letter = 'f',
                .b = std::to_string(std::min(count, kCapacityMax)),
                .owed_change = -forgiven});
  return Ok();
}

Result<std::vector<Lease>> ClientView::Receive(std::string_view name, size_t max) {
  ViewedTopic* topic = Find(name);
  if (topic == nullptr || !topic->open) return NoTopic(name);
  std::vector<Lease> leases;
  const Time now = clock_.Now();
  const Duration lease_time = topic->options.lease;
  while (leases.size() < max && !topic->fetched.empty()) {
    FetchedMessage message = std::move(topic->fetched.front());
    topic->fetched.pop_front();
    if (message.renewed + lease_time <= now) {
      if (!options_.keeps_leases) continue;  // it ran out; the broker gives it again
      message.renewed = now;
    }
    const uint64_t token = next_token_++;
    if (now - message.renewed > lease_time / 8) {
      Renew(topic->name, {message.entry, token});
      message.renewed = now;
    }
    leases.push_back({.topic = topic->name,
                      .id = message.id,
                      .token = token,
                      .body = std::move(message.body),
                      .deliveries = message.deliveries});
    const Time deadline = message.renewed + lease_time;
    held_.emplace(token, Held{topic->name, topic->generation, std::move(message), deadline});
  }
  topic->demand = max - leases.size();
  return leases;
}

Status ClientView::CheckHeld(const Lease& lease) {
  auto found = held_.find(lease.token);
  if (found == held_.end() || found->second.message.id != lease.id ||
      found->second.topic != lease.topic) {
    return Expired(lease);
  }
  if (found->second.deadline <= clock_.Now()) {
    RanOut(found->second);
    held_.erase(found);
    return Expired(lease);
  }
  return Ok();
}

Result<ClientView::Held> ClientView::TakeHeld(const Lease& lease) {
  TM_RETURN_IF_ERROR(CheckHeld(lease));
  auto node = held_.extract(lease.token);
  return std::move(node.mapped());
}

void ClientView::EndLease(const Held& held, BusCall call) {
  ViewedTopic* topic = Find(held.topic);
  if (topic == nullptr || topic->generation != held.generation) return;
  call.a = held.message.entry;
  call.renewed = held.deadline - topic->options.lease;
  Push(*topic, std::move(call));
}

Status ClientView::Ack(const Lease& lease) {
  TM_ASSIGN_OR_RETURN(Held held, TakeHeld(lease));
  EndLease(held, {.letter = 'a', .body_ref = held.message.body_ref, .size_change = -1});
  return Ok();
}

Status ClientView::Extend(const Lease& lease) {
  TM_RETURN_IF_ERROR(CheckHeld(lease));
  Held& held = held_.at(lease.token);
  ViewedTopic* topic = Find(held.topic);
  TM_CHECK(topic != nullptr, "a lease is held in a topic nobody knows");
  held.deadline = clock_.Now() + topic->options.lease;
  Renew(held.topic, {held.message.entry, lease.token});
  return Ok();
}

Status ClientView::Release(const Lease& lease, Duration delay) {
  TM_ASSIGN_OR_RETURN(Held held, TakeHeld(lease));
  const auto delay_ms = std::chrono::ceil<milliseconds>(ClampDelay(delay)).count();
  EndLease(held, {.letter = 'b', .b = std::to_string(delay_ms)});
  return Ok();
}

Status ClientView::Reject(const Lease& lease, std::string_view reason) {
  TM_ASSIGN_OR_RETURN(Held held, TakeHeld(lease));
  EndLease(held, {.letter = 'x', .b = std::string(reason), .size_change = -1});
  return Ok();
}

Result<TopicDepth> ClientView::Depth(std::string_view name) {
  ViewedTopic* topic = Find(name);
  if (topic == nullptr || !topic->open) return NoTopic(name);
  topic->tick_now = true;
  if (!topic->heard) {
    return Unavailable("the depth of topic \"" + topic->name + "\" is not known yet; try again");
  }
  return topic->depth;
}

Status ClientView::Remove(std::string_view name) {
  if (name == kDeadTopic) return Invalid("the topic \"dead\" belongs to the bus");
  ViewedTopic* topic = Find(name);
  if (topic == nullptr || !topic->open) return NoTopic(name);
  Gone(*topic);
  Push(*topic, {.letter = 'd'});
  gone_[topic->name] = clock_.Now() + kRemovedFor;
  return Ok();
}

void ClientView::GiveAllBack() {
  const Time now = clock_.Now();
  auto held = std::exchange(held_, {});
  for (const auto& [token, one] : held) {
    if (one.deadline > now) EndLease(one, {.letter = 'b', .b = "0"});
  }
  for (auto& [name, topic] : topics_) {
    if (!topic.open) continue;
    topic.demand = 0;
    for (FetchedMessage& message : std::exchange(topic.fetched, {})) {
      GiveBack(topic, std::move(message.entry));
    }
    if (topic.received) Push(topic, {.letter = 'l'});
  }
}

namespace {

constexpr const char* kUnreadDelayMs = "1000";
constexpr size_t kGoneMax = 1024;
constexpr Duration kGoneFor = std::chrono::seconds(1);

}  // namespace

std::string TopicOptionsText(const TopicOptions& options) {
  return std::to_string(options.capacity) + " " +
         std::to_string(std::chrono::ceil<milliseconds>(options.lease).count()) + " " +
         std::to_string(options.max_deliveries);
}

std::vector<BusCall> ClientView::TakeCalls(size_t count_max, size_t bytes_max) {
  std::vector<BusCall> taken;
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

void ClientView::Done(const BusCall& call) {
  --under_way_;
  ViewedTopic* topic = Find(call.topic);
  if (topic != nullptr && topic->generation == call.generation) {
    topic->size_change -= call.size_change;
    if (call.letter != 'q') topic->owed_change -= call.owed_change;
  }
  if (call.letter == 'q') {
    ViewedTopic* inbox = Find(call.a);
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

void ClientView::PutBack(std::vector<BusCall> calls) {
  under_way_ -= calls.size();
  for (const BusCall& call : calls) bytes_ += call.body.size();
  calls_.insert(calls_.begin(), std::make_move_iterator(calls.begin()),
                std::make_move_iterator(calls.end()));
}

void ClientView::OpenAgain() {
  for (auto& [name, topic] : topics_) {
    topic.made = 0;
    if (!topic.open || !topic.ours) continue;
    ++topic.opening;
    calls_.push_front({.letter = name == kDeadTopic ? 'O' : 'o',
                       .topic = name,
                       .generation = topic.generation,
                       .a = TopicOptionsText(topic.options)});
  }
}

void ClientView::OpenDeadLetters(const TopicOptions& options) {
  ViewedTopic& topic = FindOrAdd(kDeadTopic);
  topic.generation = next_generation_++;
  topic.open = topic.ours = topic.heard = true;
  topic.options = options;
  Push(topic, {.letter = 'O', .a = TopicOptionsText(options)});
}

void ClientView::InboxGone(std::string_view inbox) {
  const Time now = clock_.Now();
  if (gone_.size() >= kGoneMax) std::erase_if(gone_, [&](auto& one) { return one.second <= now; });
  if (gone_.size() < kGoneMax) gone_[std::string(inbox)] = now + kGoneFor;
}

// A topic of ours has the options we gave it, and ticks tell what becomes of it; one on its way in
// or out is not what was heard of.
void ClientView::HeardAll(const std::vector<ListedTopic>& listed) {
  std::set<std::string_view> names;
  for (const ListedTopic& one : listed) {
    names.insert(one.name);
    ViewedTopic& topic = FindOrAdd(one.name);
    if (topic.ours || topic.opening > 0) continue;
    gone_.erase(one.name);  // it is back
    if (!topic.open) topic.generation = next_generation_++;
    topic.open = true;
    topic.options = one.options;
  }
  for (auto it = topics_.begin(); it != topics_.end();) {
    ViewedTopic& topic = it->second;
    if (topic.open && !topic.ours && topic.opening == 0 && names.count(it->first) == 0) Gone(topic);
    const bool useless = !topic.open && topic.opening == 0 && topic.listeners == 0;
    it = useless ? topics_.erase(it) : std::next(it);
  }
}

void ClientView::Gone(ViewedTopic& topic) {
  std::erase_if(held_, [&](const auto& one) { return one.second.topic == topic.name; });
  extends_.erase(topic.name);
  ViewedTopic fresh;
  fresh.name = topic.name;
  fresh.listeners = topic.listeners;
  fresh.opening = topic.opening;
  fresh.generation = next_generation_++;
  topic = std::move(fresh);
}

void ClientView::Lost(uint64_t token) {
  held_.erase(token);
}

void ClientView::GiveBack(ViewedTopic& topic, std::string entry) {
  ++given_back_;
  Push(topic, {.letter = 'u', .a = std::move(entry), .renewed = clock_.Now()});
}

void ClientView::EndUnread(ViewedTopic& topic, std::string entry, std::string_view reason,
                           bool gone) {
  BusCall call = {.letter = gone ? 'x' : 'b',
                  .a = std::move(entry),
                  .b = gone ? std::string(reason) : kUnreadDelayMs,
                  .size_change = gone ? -1 : 0,
                  .renewed = clock_.Now()};
  Push(topic, std::move(call));
}

void ClientView::RenewEnding(BusCall& call, Time now) {
  if (!call.ends_lease()) return;
  ViewedTopic* topic = Find(call.topic);
  if (topic == nullptr || topic->generation != call.generation) return;
  if (now - call.renewed <= topic->options.lease / 3) return;
  call.renewed = now;
  Renew(call.topic, {call.a, 0});
}

void ClientView::TendLeases(Duration linger) {
  const Time now = clock_.Now();
  for (auto& [name, topic] : topics_) {
    if (!topic.open || topic.fetched.empty()) continue;
    if (now - topic.fetched.front().fetched > linger) {
      topic.demand = 0;
      for (FetchedMessage& message : std::exchange(topic.fetched, {})) {
        GiveBack(topic, std::move(message.entry));
      }
      continue;
    }
    for (FetchedMessage& message : topic.fetched) {
      if (now - message.renewed <= topic.options.lease / 3) continue;
      message.renewed = now;
      Renew(name, {message.entry, 0});
    }
  }
  // A call that waits, say behind a topic that is full, must not lose the lease it is about to end.
  for (BusCall& call : calls_) RenewEnding(call, now);
  std::erase_if(held_, [&](const auto& one) {
    if (one.second.deadline > now) return false;
    RanOut(one.second);
    return true;
  });
}

void ClientView::RanOut(const Held& held) {
  if (options_.keeps_leases) EndLease(held, {.letter = 'e'});
}

void ClientView::Renew(const std::string& topic, Renewal renewal) {
  if (!options_.keeps_leases) extends_[topic].push_back(std::move(renewal));
}

void ClientView::LoseDeliveries() {
  held_.clear();
  std::deque<BusCall> calls = std::exchange(calls_, {});
  for (BusCall& call : calls) {
    if (!call.ends_lease()) {
      calls_.push_back(std::move(call));
      continue;
    }
    ++under_way_;  // Done counts it off
    Done(call);
  }
  for (auto& [name, topic] : topics_) {
    topic.fetched.clear();
    topic.asked = 0;
    topic.tick_sent = false;
    topic.tick_now = true;
  }
}

std::set<std::string> ClientView::Entries(std::string_view name) {
  std::set<std::string> entries;
  for (const auto& [token, held] : held_) {
    if (held.topic == name) entries.insert(held.message.entry);
  }
  if (ViewedTopic* topic = Find(name); topic != nullptr) {
    for (const FetchedMessage& message : topic->fetched) entries.insert(message.entry);
  }
  for (const BusCall& call : calls_) {
    if (call.topic == name && call.ends_lease()) entries.insert(call.a);
  }
  return entries;
}

}  // namespace tidemill
