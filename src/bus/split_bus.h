// Two buses as one: some topics stay in this process, the others are shared with other processes.
//
// The learner's dispatcher, replay and learner talk to each other thousands of times a second and
// die together; what they say to each other means nothing to whoever comes after them. So it stays
// in memory, and a new learner finds no orders of its predecessor.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "bus/bus.h"

namespace tidemill {

// Both buses must outlive it. Thread-safe as they are.
class SplitBus final : public Bus {
 public:
  // Topics named in `inside` are on `inner`, all others on `outer`. A request and the inbox for its
  // answer must be on the same side: kInvalid.
  SplitBus(Bus& outer, Bus& inner, std::set<std::string, std::less<>> inside)
      : outer_(outer), inner_(inner), inside_(std::move(inside)) {}

  Status Open(std::string_view topic, const TopicOptions& options) override {
    return Of(topic).Open(topic, options);
  }
  Status Publish(std::string_view topic, std::string body) override {
    return Of(topic).Publish(topic, std::move(body));
  }
  Status PublishRequest(std::string_view topic, std::string_view inbox, std::string body) override {
    if (&Of(topic) != &Of(inbox)) {
      return Invalid(std::string(topic) + " and " + std::string(inbox) + " are on different buses");
    }
    return Of(topic).PublishRequest(topic, inbox, std::move(body));
  }
  Status PublishReply(std::string_view inbox, std::string body) override {
    return Of(inbox).PublishReply(inbox, std::move(body));
  }
  Status Forgive(std::string_view inbox, size_t count) override {
    return Of(inbox).Forgive(inbox, count);
  }
  Result<std::vector<Lease>> Receive(std::string_view topic, size_t max) override {
    return Of(topic).Receive(topic, max);
  }
  Status Ack(const Lease& lease) override { return Of(lease.topic).Ack(lease); }
  Status Extend(const Lease& lease) override { return Of(lease.topic).Extend(lease); }
  Status Release(const Lease& lease, Duration delay) override {
    return Of(lease.topic).Release(lease, delay);
  }
  Status Reject(const Lease& lease, std::string_view reason) override {
    return Of(lease.topic).Reject(lease, reason);
  }
  Result<TopicDepth> Depth(std::string_view topic) override { return Of(topic).Depth(topic); }
  uint64_t Losses() override { return outer_.Losses() + inner_.Losses(); }
  void Subscribe(std::string_view topic, Waker& waker) override {
    Of(topic).Subscribe(topic, waker);
  }
  void Unsubscribe(Waker& waker) override {
    outer_.Unsubscribe(waker);
    inner_.Unsubscribe(waker);
  }
  Status Remove(std::string_view topic) override { return Of(topic).Remove(topic); }
  void Close() override {
    outer_.Close();
    inner_.Close();
  }

 private:
  Bus& Of(std::string_view topic) { return inside_.count(topic) != 0 ? inner_ : outer_; }

  Bus& outer_;
  Bus& inner_;
  const std::set<std::string, std::less<>> inside_;
};

}  // namespace tidemill
