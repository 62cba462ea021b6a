// The promises of every Bus, as tests. A test file gives a harness and says
// INSTANTIATE_TEST_SUITE_P; the tests here know neither how fast the bus is nor whose clock it runs
// on. What is promised of leases and of room stands in bus_contract_leases.h and
// bus_contract_room.h.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "testing/bus_contract_fixture.h"
#include "testing/bus_contract_leases.h"
#include "testing/bus_contract_room.h"

namespace tidemill {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BusContract);

TEST_P(BusContract, DeliversWhatWasPublishedAndForgetsWhatWasAcknowledged) {
  Open("t");
  const std::string binary("\0\r\n\xff{}$3", 8);
  ASSERT_TRUE(bus(0).Publish("t", binary).ok());
  ASSERT_TRUE(bus(0).Publish("t", "").ok());
  auto leases = Take("t", 2, 1);
  EXPECT_THAT(Bodies(leases), testing::UnorderedElementsAre(binary, ""));
  EXPECT_EQ(leases[0].topic, "t");
  EXPECT_EQ(leases[0].deliveries, 1u);
  EXPECT_NE(leases[0].id, leases[1].id);
  ExpectDepth("t", {.leased = 2});
  for (const Lease& lease : leases) EXPECT_TRUE(bus(1).Ack(lease).ok());
  ExpectDepth("t", {});
  Advance(2 * kLease);
  EXPECT_TRUE(bus().Receive("t", 10)->empty());
}

TEST_P(BusContract, ATopicThatWasNeverOpenedIsNotFound) {
  EXPECT_EQ(bus().Publish("nowhere", "x").code(), Code::kNotFound);
  EXPECT_EQ(bus().Receive("nowhere", 1).status().code(), Code::kNotFound);
  EXPECT_EQ(bus().Depth("nowhere").status().code(), Code::kNotFound);
  EXPECT_EQ(bus().Remove("nowhere").code(), Code::kNotFound);
  Open("t");
  EXPECT_EQ(bus().PublishRequest("t", "nowhere", "x").code(), Code::kNotFound);
  EXPECT_EQ(bus().PublishRequest("nowhere", "t", "x").code(), Code::kNotFound);
  EXPECT_TRUE(
      Eventually([&] { return bus().PublishReply("nowhere", "x").code() == Code::kNotFound; }));
  ExpectDepth("t", {});
}

TEST_P(BusContract, RefusesTopicOptionsThatMakeNoSense) {
  EXPECT_EQ(bus().Open("", {}).code(), Code::kInvalid);
  EXPECT_EQ(bus().Open("two words", {}).code(), Code::kInvalid);
  EXPECT_EQ(bus().Open("t", {.capacity = 0}).code(), Code::kInvalid);
  EXPECT_EQ(bus().Open("t", {.lease = Duration::zero()}).code(), Code::kInvalid);
  EXPECT_EQ(bus().Open("t", {.max_deliveries = 0}).code(), Code::kInvalid);
}

// Each pair of calls here leaves another state behind if the second outruns the first.
TEST_P(BusContract, CallsOfOneClientTakeEffectInTheOrderMade) {
  Open("requests", 1000);
  TopicOptions options;
  options.lease = kLease;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(bus(0).Open("inbox", options).ok());
    ASSERT_TRUE(bus(0).Publish("inbox", "old").ok());
    ASSERT_TRUE(bus(0).Remove("inbox").ok());
    ASSERT_TRUE(bus(0).Open("inbox", options).ok());
    ASSERT_TRUE(bus(0).PublishRequest("requests", "inbox", "q").ok());
    ASSERT_TRUE(bus(0).Forgive("inbox", 1).ok());
    ASSERT_TRUE(bus(0).PublishRequest("requests", "inbox", "q").ok());
    ASSERT_TRUE(bus(0).Publish("inbox", "new").ok());
    if (i % 10 == 0) ExpectDepth("inbox", {.ready = 1, .owed = 1});
  }
  EXPECT_EQ(TakeOne("inbox", 0).body, "new");
  ExpectDepth("inbox", {.leased = 1, .owed = 1});
  ExpectDepth("requests", {.ready = 100});
}

TEST_P(BusContract, ASubscriberIsWokenByAMessageAndByWhatWasThereBefore) {
  Open("t");
  Bell waker;
  bus(0).Subscribe("t", waker);
  uint64_t seen = waker.count();
  ASSERT_TRUE(bus(1).Publish("t", "x").ok());
  EXPECT_TRUE(waker.WaitPast(seen, kPatience));
  Bell late;
  bus(0).Subscribe("t", late);
  EXPECT_TRUE(late.WaitPast(0, kPatience));
  // Taken to the last, the next message wakes again.
  ASSERT_TRUE(bus(0).Ack(TakeOne("t", 0)).ok());
  ExpectDepth("t", {});
  seen = waker.count();
  ASSERT_TRUE(bus(1).Publish("t", "y").ok());
  EXPECT_TRUE(waker.WaitPast(seen, kPatience));
  bus(0).Unsubscribe(waker);
  bus(0).Unsubscribe(late);
  seen = waker.count();
  ASSERT_TRUE(bus(0).Publish("t", "z").ok());
  EXPECT_EQ(Take("t", 2).size(), 2u);
  EXPECT_EQ(waker.count(), seen);
}

TEST_P(BusContract, ASubscriptionMayComeBeforeItsTopicIsOpened) {
  Bell waker;
  bus(0).Subscribe("t", waker);
  Open("t");
  const uint64_t seen = waker.count();
  ASSERT_TRUE(bus(1).Publish("t", "x").ok());
  EXPECT_TRUE(waker.WaitPast(seen, kPatience));
  bus(0).Unsubscribe(waker);
}

TEST_P(BusContract, ASubscriberIsWokenWhenALeaseRunsOutAndWhenADelayIsOver) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "x").ok());
  const Lease lost = TakeOne("t", 1);
  Bell waker;
  bus(0).Subscribe("t", waker);
  ExpectDepth("t", {.leased = 1});
  Advance(2 * kLease);
  EXPECT_TRUE(waker.WaitPast(0, kPatience));
  const Lease mine = TakeOne("t", 0);
  ASSERT_TRUE(bus(0).Release(mine, kLease).ok());
  ExpectDepth("t", {.ready = 1});
  const uint64_t seen = waker.count();
  Advance(2 * kLease);
  EXPECT_TRUE(waker.WaitPast(seen, kPatience));
  EXPECT_EQ(TakeOne("t", 0).deliveries, 3u);
  bus(0).Unsubscribe(waker);
}

TEST_P(BusContract, RemoveTakesATopicWithAllThatIsInIt) {
  Open("inbox");
  Open("requests");
  ASSERT_TRUE(bus().Publish("inbox", "x").ok());
  ASSERT_TRUE(bus().PublishRequest("requests", "inbox", "q").ok());
  const Lease lease = TakeOne("inbox");
  ASSERT_TRUE(bus().Remove("inbox").ok());
  EXPECT_EQ(bus().Ack(lease).code(), Code::kNotFound);
  EXPECT_EQ(bus().Publish("inbox", "x").code(), Code::kNotFound);
  EXPECT_EQ(bus().PublishReply("inbox", "x").code(), Code::kNotFound);
  EXPECT_EQ(bus().Remove("inbox").code(), Code::kNotFound);
  Open("inbox");
  ExpectDepth("inbox", {});
  EXPECT_EQ(bus().Ack(lease).code(), Code::kNotFound);
}

TEST_P(BusContract, OpeningAgainChangesTheOptionsAndKeepsTheMessages) {
  Open("t", 1);
  ASSERT_TRUE(bus().Publish("t", "a").ok());
  EXPECT_EQ(bus().Publish("t", "b").code(), Code::kFull);
  Open("t", 2);
  EXPECT_TRUE(bus().Publish("t", "b").ok());
  EXPECT_THAT(Bodies(Take("t", 2)), testing::UnorderedElementsAre("a", "b"));
}

TEST_P(BusContract, AfterCloseEveryCallSaysSo) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "x").ok());
  const Lease lease = TakeOne("t");
  Bell waker;
  bus().Subscribe("t", waker);
  const uint64_t seen = waker.count();
  bus().Close();
  EXPECT_TRUE(waker.WaitPast(seen, kPatience)) << "a subscriber learns of the end by being woken";
  EXPECT_EQ(bus().Open("t", {}).code(), Code::kClosed);
  EXPECT_EQ(bus().Publish("t", "x").code(), Code::kClosed);
  EXPECT_EQ(bus().PublishRequest("t", "t", "x").code(), Code::kClosed);
  EXPECT_EQ(bus().PublishReply("t", "x").code(), Code::kClosed);
  EXPECT_EQ(bus().Forgive("t", 1).code(), Code::kClosed);
  EXPECT_EQ(bus().Receive("t", 1).status().code(), Code::kClosed);
  EXPECT_EQ(bus().Ack(lease).code(), Code::kClosed);
  EXPECT_EQ(bus().Extend(lease).code(), Code::kClosed);
  EXPECT_EQ(bus().Release(lease, Duration::zero()).code(), Code::kClosed);
  EXPECT_EQ(bus().Reject(lease, "").code(), Code::kClosed);
  EXPECT_EQ(bus().Depth("t").status().code(), Code::kClosed);
  EXPECT_EQ(bus().Remove("t").code(), Code::kClosed);
  bus().Unsubscribe(waker);
  bus().Close();
}

TEST_P(BusContract, CloseWhileOthersReceiveEndsTheirReceiving) {
  Open("t", 100);
  std::atomic<int> ended = 0;
  std::vector<std::thread> receivers;
  for (int i = 0; i < 3; ++i) {
    receivers.emplace_back([&] {
      Bell waker;
      bus().Subscribe("t", waker);
      for (uint64_t seen = 0;; seen = waker.count()) {
        auto leases = bus().Receive("t", 4);
        if (!leases.ok()) {
          EXPECT_EQ(leases.status().code(), Code::kClosed);
          break;
        }
        for (const Lease& lease : *leases) (void)bus().Ack(lease);
        if (leases->empty()) waker.WaitPast(seen, milliseconds(50));
      }
      bus().Unsubscribe(waker);
      ++ended;
    });
  }
  for (int i = 0; i < 50; ++i) (void)bus().Publish("t", "x");
  bus().Close();
  for (auto& receiver : receivers) receiver.join();
  EXPECT_EQ(ended, 3);
}

// Without a lease running out nothing is lost and nothing comes twice.
TEST_P(BusContract, ManyThreadsLoseNothingAndRepeatNothing) {
  Open("t", 200);
  constexpr int kProducers = 3, kConsumers = 3, kEach = 400;
  std::atomic<int> left = kProducers * kEach;
  Mutex mutex;
  std::map<std::string, int> seen;
  std::vector<std::thread> threads;
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        const std::string body = std::to_string(p) + ":" + std::to_string(i);
        EXPECT_TRUE(Eventually([&] { return bus(p % 2).Publish("t", body).ok(); }));
      }
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&, c] {
      Bus& mine = bus(c % 2);
      Bell waker;
      mine.Subscribe("t", waker);
      EXPECT_TRUE(Eventually([&] {
        for (const Lease& lease : TakeNow(mine, "t", 8)) {
          EXPECT_EQ(lease.deliveries, 1u);
          {
            MutexLock lock(mutex);
            ++seen[lease.body];
          }
          EXPECT_TRUE(mine.Ack(lease).ok());
          --left;
        }
        return left == 0;
      }));
      mine.Unsubscribe(waker);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), static_cast<size_t>(kProducers * kEach));
  for (const auto& [body, times] : seen) EXPECT_EQ(times, 1) << body;
  ExpectDepth("t", {});
}

}  // namespace tidemill
