// The part of the contract about room: topics are bounded, and every answer owed has its place.
// Included by bus_contract.h.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/bus_contract_fixture.h"

namespace tidemill {

TEST_P(BusContract, AFullTopicSaysSoUntilThereIsRoom) {
  Open("t", 3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bus().Publish("t", std::to_string(i)).ok());
  EXPECT_EQ(bus().Publish("t", "3").code(), Code::kFull);
  auto leases = Take("t", 3);
  ASSERT_EQ(leases.size(), 3u);
  // Leased and delayed messages take room as well.
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

// Both sides wait when the question is asked, so that its answer is as quick as can be: it may be
// there before the asker knows that the question is.
TEST_P(BusContract, AQuickAnswerIsNoLongerOwed) {
  Open("requests");
  Open("inbox");
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(TakeNow(bus(0), "inbox", 1).empty());
    ASSERT_TRUE(bus(0).PublishRequest("requests", "inbox", "q").ok());
    const Lease request = TakeOne("requests", 1);
    ASSERT_TRUE(bus(1).PublishReply("inbox", "a").ok());
    ASSERT_TRUE(bus(1).Ack(request).ok());
    const Lease answer = TakeOne("inbox", 0);
    ASSERT_EQ(answer.body, "a");
    ASSERT_TRUE(bus(0).Ack(answer).ok());
    EXPECT_TRUE(TakeNow(bus(1), "requests", 1).empty());
  }
  ExpectDepth("inbox", {});
  ExpectDepth("requests", {});
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

}  // namespace tidemill
