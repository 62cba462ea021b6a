#include "bus/outbox.h"

#include <stdexcept>

#include "core/topics.h"

namespace tidemill {

void Outbox::Publish(std::string_view topic, std::string body, std::optional<Lease> then_ack) {
  Add(topic, {Kind::kPublish, {}, std::move(body), std::move(then_ack)});
}

void Outbox::Request(std::string_view topic, std::string_view inbox, std::string body) {
  Add(topic, {Kind::kRequest, std::string(inbox), std::move(body), {}});
}

void Outbox::Reply(std::string_view inbox, std::string body, std::optional<Lease> then_ack) {
  Add(inbox, {Kind::kReply, {}, std::move(body), std::move(then_ack)});
}

void Outbox::Add(std::string_view topic, Entry entry) {
  topics_.try_emplace(std::string(topic)).first->second.push_back(std::move(entry));
  ++waiting_;
}

Status Outbox::Send(const std::string& topic, Entry& entry) {
  // The body is copied: a refused call must leave it whole for the next try.
  switch (entry.kind) {
    case Kind::kPublish:
      return bus_.Publish(topic, entry.body);
    case Kind::kRequest:
      return bus_.PublishRequest(topic, entry.inbox, entry.body);
    case Kind::kReply:
      return bus_.PublishReply(topic, entry.body);
  }
  return Internal("unknown kind of message");
}

void Outbox::ExtendWaiting(Time now) {
  if (waiting_ == 0) {
    extend_at_ = now + lease_period_;
    return;
  }
  if (now < extend_at_) return;
  extend_at_ = now + lease_period_;
  for (auto& [topic, entries] : topics_) {
    for (Entry& entry : entries) {
      if (entry.then_ack) (void)bus_.Extend(*entry.then_ack);
    }
  }
}

void Outbox::Flush(Time now) {
  ExtendWaiting(now);
  for (auto it = topics_.begin(); it != topics_.end();) {
    std::deque<Entry>& entries = it->second;
    while (!entries.empty()) {
      Entry& entry = entries.front();
      const Status sent = Send(it->first, entry);
      if (sent.code() == Code::kFull || sent.code() == Code::kUnavailable) break;
      if (sent.code() == Code::kClosed) return;
      // The inbox for the answer is gone: its owner, whose outbox this is, opens it again.
      if (entry.kind == Kind::kRequest && sent.code() == Code::kNotFound &&
          !bus_.Depth(entry.inbox).ok()) {
        break;
      }
      // A reply to an inbox that is gone has nobody to read it; its request is done all the same.
      // A request to a worker that is gone is never answered, which its asker notices.
      const bool nobody = sent.code() == Code::kNotFound &&
                          (entry.kind == Kind::kReply || it->first.starts_with(ToolBoxTopic("")));
      if (!sent.ok() && !nobody) {
        throw std::runtime_error("sending to " + it->first + ": " + sent.ToString());
      }
      // kNotFound here: the lease ran out meanwhile; whoever has it now will find the work done.
      if (entry.then_ack) (void)bus_.Ack(*entry.then_ack);
      entries.pop_front();
      --waiting_;
    }
    it = entries.empty() ? topics_.erase(it) : std::next(it);
  }
}

std::vector<Lease> TakeFrom(Bus& bus, std::string_view topic, size_t max) {
  if (max == 0) return {};
  Result<std::vector<Lease>> leases = bus.Receive(topic, max);
  if (leases.ok()) return std::move(*leases);
  const Code code = leases.status().code();
  if (code == Code::kClosed || code == Code::kUnavailable) return {};
  throw std::runtime_error("receiving from " + std::string(topic) + ": " +
                           leases.status().ToString());
}

std::vector<Lease> TakeFromOwn(Bus& bus, std::string_view topic, const TopicOptions& options,
                               size_t max) {
  if (bus.Depth(topic).status().code() == Code::kNotFound) (void)bus.Open(topic, options);
  return TakeFrom(bus, topic, max);
}

}  // namespace tidemill
