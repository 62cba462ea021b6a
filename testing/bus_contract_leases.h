// The part of the contract about leases: they run out, are prolonged, given back and refused, and
// what is delivered too often is dead. Included by bus_contract.h.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/bus_contract_fixture.h"

namespace tidemill {

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
  EXPECT_THAT(letter.reason(), testing::HasSubstr("expired"));
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
  EXPECT_THAT(letter.reason(), testing::HasSubstr("returned"));
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

}  // namespace tidemill
