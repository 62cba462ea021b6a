// The base of the contract's tests: a bus with its time, and ways to wait for what must come to
// be.
//
// A bus on a network answers before the other side has heard of a call, so the tests wait, with a
// generous limit, for what must come to be, and never for time to pass.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bus/bus.h"
#include "proto/tidemill.pb.h"
#include "testing/bus_test_kit.h"
#include "testing/test_kit.h"

namespace tidemill {

// A bus under test with the time it runs on.
class BusHarness {
 public:
  virtual ~BusHarness() = default;
  // The i-th client (0 or 1) of one bus: workers in two processes, or the same object where the bus
  // lives in one.
  virtual Bus& client(int i) = 0;
  // Lets `d` pass for leases and delays.
  virtual void Advance(Duration d) = 0;
};

// null: what the bus needs is not installed.
using BusHarnessFactory = std::function<std::unique_ptr<BusHarness>()>;

class BusContract : public ::testing::TestWithParam<BusHarnessFactory> {
 protected:
  static constexpr Duration kLease = std::chrono::seconds(60);

  void SetUp() override {
    harness_ = GetParam()();
    if (harness_ == nullptr) GTEST_SKIP() << "the server of this bus is not installed";
  }

  Bus& bus(int i = 0) { return harness_->client(i); }
  void Advance(Duration d) { harness_->Advance(d); }

  void Open(std::string_view topic, size_t capacity = 1000, uint32_t max_deliveries = 5) {
    TopicOptions options;
    options.capacity = capacity;
    options.lease = kLease;
    options.max_deliveries = max_deliveries;
    ASSERT_TRUE(bus(0).Open(topic, options).ok());
    ASSERT_TRUE(bus(1).Open(topic, options).ok());
  }

  // The messages there now.
  static std::vector<Lease> TakeNow(Bus& from, std::string_view topic, size_t max) {
    auto some = from.Receive(topic, max);
    if (!some.ok()) ADD_FAILURE() << some.status().ToString();
    return some.ok() ? std::move(some).value() : std::vector<Lease>();
  }

  // Receives until there are `count` or patience ends.
  static std::vector<Lease> Take(Bus& from, std::string_view topic, size_t count) {
    std::vector<Lease> taken;
    Eventually([&] {
      auto some = from.Receive(topic, count - taken.size());
      if (!some.ok()) {
        ADD_FAILURE() << some.status().ToString();
        return true;
      }
      for (Lease& lease : *some) taken.push_back(std::move(lease));
      return taken.size() >= count;
    });
    return taken;
  }
  std::vector<Lease> Take(std::string_view topic, size_t count, int client = 0) {
    return Take(bus(client), topic, count);
  }
  Lease TakeOne(std::string_view topic, int client = 0) {
    auto taken = Take(topic, 1, client);
    EXPECT_EQ(taken.size(), 1u) << "nothing came on " << topic;
    return taken.empty() ? Lease() : taken[0];
  }

  void ExpectDepth(std::string_view topic, TopicDepth want) {
    TopicDepth got;
    const bool reached = Eventually([&] {
      auto depth = bus(0).Depth(topic);
      if (depth.ok()) got = *depth;
      return depth.ok() && got.ready == want.ready && got.leased == want.leased &&
             got.owed == want.owed && got.dead == want.dead;
    });
    EXPECT_TRUE(reached) << topic << ": ready " << got.ready << " leased " << got.leased << " owed "
                         << got.owed << " dead " << got.dead;
  }
  v1::DeadLetter TakeDeadLetter() {
    Lease lease = TakeOne(kDeadTopic);
    v1::DeadLetter letter;
    EXPECT_TRUE(letter.ParseFromString(lease.body));
    EXPECT_TRUE(bus().Ack(lease).ok());
    return letter;
  }

  std::unique_ptr<BusHarness> harness_;
};

}  // namespace tidemill
