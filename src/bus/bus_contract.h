// What every Bus promises, as tests. A test file gives a harness and says INSTANTIATE_TEST_SUITE_P;
// the tests here know neither how fast the bus is nor whose clock it runs on.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bus/bus_contract_fixture.h"

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

TEST_P(BusContract, ALeaseThatRanOutIsDeliveredAgainWithItsCountOneHigher) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "work").ok());
  const Lease first = TakeOne("t", 0);
  Advance(kLease / 2);
  EXPECT_TRUE(bus(1).Receive("t", 1)->empty());
  Advance(kLease);
  const Lease second = TakeOne("t", 1);
  EXPECT_EQ(second.body, "work");
  EXPECT_EQ(second.id, first.id);
  EXPECT_EQ(second.deliveries, 2u);
  EXPECT_TRUE(bus(1).Ack(second).ok());
  ExpectDepth("t", {});
}

TEST_P(BusContract, AnEarlierHolderIsFencedOff) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "work").ok());
  const Lease old = TakeOne("t", 0);
  Advance(2 * kLease);
  EXPECT_EQ(bus(0).Extend(old).code(), Code::kNotFound);
  const Lease current = TakeOne("t", 1);
  EXPECT_EQ(bus(0).Ack(old).code(), Code::kNotFound);
  EXPECT_EQ(bus(0).Extend(old).code(), Code::kNotFound);
  EXPECT_EQ(bus(0).Release(old, Duration::zero()).code(), Code::kNotFound);
  EXPECT_EQ(bus(0).Reject(old, "no").code(), Code::kNotFound);
  ExpectDepth("t", {.leased = 1});
  EXPECT_TRUE(bus(1).Extend(current).ok());
  EXPECT_TRUE(bus(1).Ack(current).ok());
  EXPECT_EQ(bus(1).Ack(current).code(), Code::kNotFound);
  ExpectDepth("t", {});
}

TEST_P(BusContract, ALeaseWithAForeignTokenOrIdIsNotFound) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "work").ok());
  const Lease lease = TakeOne("t");
  Lease forged = lease;
  forged.token += 1000;
  EXPECT_EQ(bus().Ack(forged).code(), Code::kNotFound);
  forged = lease;
  forged.id = "not a message";
  EXPECT_EQ(bus().Ack(forged).code(), Code::kNotFound);
  EXPECT_TRUE(bus().Ack(lease).ok());
}

TEST_P(BusContract, ExtendKeepsALeaseForItsFullTimeFromNow) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "long work").ok());
  const Lease lease = TakeOne("t", 0);
  for (int i = 0; i < 4; ++i) {
    Advance(kLease * 3 / 4);
    ASSERT_TRUE(bus(0).Extend(lease).ok());
    ExpectDepth("t", {.leased = 1});
  }
  EXPECT_TRUE(bus(1).Receive("t", 1)->empty());
  EXPECT_TRUE(bus(0).Ack(lease).ok());
  ExpectDepth("t", {});
}

TEST_P(BusContract, AMessageDeliveredTooOftenBecomesADeadLetterWithItsReason) {
  Open("t", 1000, 3);
  ASSERT_TRUE(bus().Publish("t", "poison").ok());
  for (uint32_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(TakeOne("t").deliveries, i);
    Advance(2 * kLease);
  }
  const v1::DeadLetter letter = TakeDeadLetter();
  EXPECT_EQ(letter.topic(), "t");
  EXPECT_EQ(letter.body(), "poison");
  EXPECT_EQ(letter.deliveries(), 3u);
  EXPECT_THAT(letter.reason(), testing::HasSubstr("ran out"));
  EXPECT_GT(letter.died_ms(), 0);
  ExpectDepth("t", {.dead = 1});
  EXPECT_TRUE(bus().Receive("t", 1)->empty());
}

TEST_P(BusContract, AReleaseCountsAsADelivery) {
  Open("t", 1000, 2);
  ASSERT_TRUE(bus().Publish("t", "x").ok());
  ASSERT_TRUE(bus().Release(TakeOne("t"), Duration::zero()).ok());
  const Lease again = TakeOne("t");
  EXPECT_EQ(again.deliveries, 2u);
  ASSERT_TRUE(bus().Release(again, Duration::zero()).ok());
  const v1::DeadLetter letter = TakeDeadLetter();
  EXPECT_EQ(letter.body(), "x");
  EXPECT_THAT(letter.reason(), testing::HasSubstr("given back"));
}

TEST_P(BusContract, ARejectedMessageIsDeadAtOnce) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "unreadable").ok());
  ASSERT_TRUE(bus().Reject(TakeOne("t"), "it cannot be parsed").ok());
  const v1::DeadLetter letter = TakeDeadLetter();
  EXPECT_EQ(letter.reason(), "it cannot be parsed");
  EXPECT_EQ(letter.deliveries(), 1u);
  ExpectDepth("t", {.dead = 1});
}

TEST_P(BusContract, DeadLettersNeverDie) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "x").ok());
  ASSERT_TRUE(bus().Reject(TakeOne("t"), "bad").ok());
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(bus().Release(TakeOne(kDeadTopic), Duration::zero()).ok());
  }
  // Rejected again it is gone, not buried twice.
  ASSERT_TRUE(bus().Reject(TakeOne(kDeadTopic), "bad").ok());
  ExpectDepth(kDeadTopic, {});
  EXPECT_EQ(bus().Remove(kDeadTopic).code(), Code::kInvalid);
}

TEST_P(BusContract, AReleasedMessageComesBackAfterItsDelayAndNotBefore) {
  Open("t");
  ASSERT_TRUE(bus().Publish("t", "later").ok());
  ASSERT_TRUE(bus().Publish("t", "much later").ok());
  for (const Lease& lease : Take("t", 2)) {
    const bool later = lease.body == "later";
    ASSERT_TRUE(bus().Release(lease, later ? kLease : 5 * kLease).ok());
  }
  ExpectDepth("t", {.ready = 2});
  EXPECT_TRUE(bus().Receive("t", 1)->empty());
  Advance(kLease / 2);
  ExpectDepth("t", {.ready = 2});
  EXPECT_TRUE(bus().Receive("t", 1)->empty());
  Advance(kLease);
  const Lease first = TakeOne("t");
  EXPECT_EQ(first.body, "later");
  EXPECT_EQ(first.deliveries, 2u);
  ASSERT_TRUE(bus().Ack(first).ok());
  ExpectDepth("t", {.ready = 1});
  EXPECT_TRUE(bus().Receive("t", 1)->empty());
  Advance(5 * kLease);
  EXPECT_EQ(TakeOne("t").body, "much later");
}

TEST_P(BusContract, AFullTopicSaysSoUntilThereIsRoom) {
  Open("t", 3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bus().Publish("t", std::to_string(i)).ok());
  EXPECT_EQ(bus().Publish("t", "3").code(), Code::kFull);
  auto leases = Take("t", 3);
  ASSERT_EQ(leases.size(), 3u);
  // What is leased or delayed takes room as well.
  EXPECT_EQ(bus().Publish("t", "3").code(), Code::kFull);
  ASSERT_TRUE(bus().Release(leases[0], kLease).ok());
  EXPECT_EQ(bus().Publish("t", "3").code(), Code::kFull);
  ASSERT_TRUE(bus().Ack(leases[1]).ok());
  EXPECT_TRUE(bus().Publish("t", "3").ok());
  EXPECT_EQ(bus().Publish("t", "4").code(), Code::kFull);
  ExpectDepth("t", {.ready = 2, .leased = 1});
}

TEST_P(BusContract, AnInboxKeepsRoomForEveryAnswerItIsOwed) {
  Open("requests", 10);
  Open("inbox", 3);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(bus().PublishRequest("requests", "inbox", "q").ok());
  ASSERT_TRUE(bus().Publish("inbox", "unasked").ok());
  EXPECT_EQ(bus().Publish("inbox", "unasked").code(), Code::kFull);
  EXPECT_EQ(bus().PublishRequest("requests", "inbox", "q").code(), Code::kFull);
  ExpectDepth("inbox", {.ready = 1, .owed = 2});
  ExpectDepth("requests", {.ready = 2});
  for (const Lease& request : Take("requests", 2, 1)) {
    EXPECT_TRUE(bus(1).PublishReply("inbox", "a").ok());
    EXPECT_TRUE(bus(1).Ack(request).ok());
  }
  ExpectDepth("inbox", {.ready = 3});
  auto answers = Take("inbox", 3);
  EXPECT_THAT(Bodies(answers), testing::UnorderedElementsAre("unasked", "a", "a"));
  for (const Lease& answer : answers) EXPECT_TRUE(bus().Ack(answer).ok());
  ExpectDepth("inbox", {});
  EXPECT_TRUE(bus().PublishRequest("requests", "inbox", "q").ok());
}

TEST_P(BusContract, ARequestThatDoesNotFitReservesNothing) {
  Open("requests", 1);
  Open("inbox", 10);
  ASSERT_TRUE(bus().PublishRequest("requests", "inbox", "q").ok());
  EXPECT_EQ(bus().PublishRequest("requests", "inbox", "q").code(), Code::kFull);
  ExpectDepth("inbox", {.owed = 1});
  ExpectDepth("requests", {.ready = 1});
}

TEST_P(BusContract, ForgivenAnswersGiveTheirRoomBack) {
  Open("requests", 10);
  Open("inbox", 2);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(bus().PublishRequest("requests", "inbox", "q").ok());
  ASSERT_EQ(bus().PublishRequest("requests", "inbox", "q").code(), Code::kFull);
  ASSERT_TRUE(bus().Forgive("inbox", 1).ok());
  ExpectDepth("inbox", {.owed = 1});
  EXPECT_TRUE(bus().PublishRequest("requests", "inbox", "q").ok());
  ASSERT_TRUE(bus().Forgive("inbox", 100).ok());
  ExpectDepth("inbox", {});
}

TEST_P(BusContract, ADuplicateAnswerIsTakenEvenWhenTheInboxIsFull) {
  Open("requests", 10);
  Open("inbox", 2);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(bus().PublishRequest("requests", "inbox", "q").ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(bus().PublishReply("inbox", std::to_string(i)).ok());
  ExpectDepth("inbox", {.ready = 4});
  EXPECT_EQ(bus().Publish("inbox", "no").code(), Code::kFull);
  EXPECT_THAT(Bodies(Take("inbox", 4)), testing::UnorderedElementsAre("0", "1", "2", "3"));
}

TEST_P(BusContract, ACycleOfFullQueuesDoesNotLock) {
  Open("requests", 2);
  Open("inbox", 2);
  int asked = 0, answered = 0;
  ASSERT_TRUE(Eventually([&] {
    while (asked < 20 && bus(0).PublishRequest("requests", "inbox", "q").ok()) ++asked;
    for (const Lease& request : TakeNow(bus(1), "requests", 4)) {
      EXPECT_TRUE(bus(1).PublishReply("inbox", "a").ok());
      EXPECT_TRUE(bus(1).Ack(request).ok());
    }
    for (const Lease& answer : TakeNow(bus(0), "inbox", 4)) {
      ++answered;
      EXPECT_TRUE(bus(0).Ack(answer).ok());
    }
    return answered == 20;
  }));
  ExpectDepth("inbox", {});
  ExpectDepth("requests", {});
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

TEST_P(BusContract, AnAcknowledgementMakesRoomForThePublishAfterIt) {
  Open("t", 1);
  ASSERT_TRUE(bus(0).Publish("t", "0").ok());
  for (int i = 1; i <= 20; ++i) {
    const Lease lease = TakeOne("t", 0);
    ASSERT_EQ(lease.body, std::to_string(i - 1));
    ASSERT_TRUE(bus(0).Ack(lease).ok());
    ASSERT_TRUE(bus(0).Publish("t", std::to_string(i)).ok());
  }
  ExpectDepth("t", {.ready = 1});
}

TEST_P(BusContract, ASubscriberIsWokenByAMessageAndByWhatWasThereBefore) {
  Open("t");
  CountingWaker waker;
  bus(0).Subscribe("t", waker);
  uint64_t seen = waker.count();
  ASSERT_TRUE(bus(1).Publish("t", "x").ok());
  EXPECT_TRUE(waker.WaitPast(seen, kPatience));
  CountingWaker late;
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
  CountingWaker waker;
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
  CountingWaker waker;
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
  CountingWaker waker;
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
      CountingWaker waker;
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
  std::mutex mutex;
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
      CountingWaker waker;
      mine.Subscribe("t", waker);
      EXPECT_TRUE(Eventually([&] {
        for (const Lease& lease : TakeNow(mine, "t", 8)) {
          EXPECT_EQ(lease.deliveries, 1u);
          {
            std::lock_guard lock(mutex);
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
