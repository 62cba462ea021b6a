// Small things that tests of a bus share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bus/bus.h"
#include "core/topics.h"
#include "proto/tidemill.pb.h"
#include "testing/test_kit.h"

namespace tidemill {

inline std::vector<std::string> Bodies(const std::vector<Lease>& leases) {
  std::vector<std::string> bodies;
  for (const Lease& lease : leases) bodies.push_back(lease.body);
  return bodies;
}

// Why the dead letters that wait are dead; they are taken off.
inline std::vector<std::string> TakeDeadLetterReasons(Bus& bus) {
  std::vector<std::string> reasons;
  for (const Lease& lease : bus.Receive(kDeadTopic, 100).value()) {
    v1::DeadLetter letter;
    EXPECT_TRUE(letter.ParseFromString(lease.body));
    reasons.push_back(letter.reason());
    EXPECT_TRUE(bus.Ack(lease).ok());
  }
  return reasons;
}

// A bus whose server can lose all it knew of a topic, as one without persistence does when it is
// started again.
class LossyBus final : public Bus {
 public:
  explicit LossyBus(Bus& bus) : bus_(bus) {}

  void Lose(std::string_view topic) {
    for (const Lease& lease : bus_.Receive(topic, 1000).value()) {
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    ++losses_;
  }

  Status Open(std::string_view topic, const TopicOptions& options) override {
    return bus_.Open(topic, options);
  }
  Status Publish(std::string_view topic, std::string body) override {
    return bus_.Publish(topic, std::move(body));
  }
  Status PublishRequest(std::string_view topic, std::string_view inbox, std::string body) override {
    return bus_.PublishRequest(topic, inbox, std::move(body));
  }
  Status PublishReply(std::string_view inbox, std::string body) override {
    return bus_.PublishReply(inbox, std::move(body));
  }
  Status Forgive(std::string_view inbox, size_t count) override {
    return bus_.Forgive(inbox, count);
  }
  Result<std::vector<Lease>> Receive(std::string_view topic, size_t max) override {
    return bus_.Receive(topic, max);
  }
  Status Ack(const Lease& lease) override { return bus_.Ack(lease); }
  Status Extend(const Lease& lease) override { return bus_.Extend(lease); }
  Status Release(const Lease& lease, Duration delay) override { return bus_.Release(lease, delay); }
  Status Reject(const Lease& lease, std::string_view reason) override {
    return bus_.Reject(lease, reason);
  }
  Result<TopicDepth> Depth(std::string_view topic) override { return bus_.Depth(topic); }
  uint64_t Losses() override { return losses_; }
  void Subscribe(std::string_view topic, Waker& waker) override { bus_.Subscribe(topic, waker); }
  void Unsubscribe(Waker& waker) override { bus_.Unsubscribe(waker); }
  Status Remove(std::string_view topic) override { return bus_.Remove(topic); }
  void Close() override { bus_.Close(); }

 private:
  Bus& bus_;
  uint64_t losses_ = 0;
};

}  // namespace tidemill
