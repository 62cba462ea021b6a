#include "weights/weight_channel.h"

#include <gtest/gtest.h>

#include <thread>

#include "testing/number_weights.h"

namespace tidemill {

namespace {

TEST(LocalWeightChannel, GivesTheNewestVersionOnlyIfItIsNewer) {
  const auto channel = NewLocalWeightChannel();
  EXPECT_EQ(channel->NewerThan(0)->weights, nullptr);
  ASSERT_TRUE(channel->Publish(NumberVersion(3)).ok());
  ASSERT_TRUE(channel->Publish(NumberVersion(5)).ok());
  const auto newer = channel->NewerThan(3);
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(newer->version, 5u);
  EXPECT_EQ(NumberIn(newer->weights), 5u);
  EXPECT_EQ(channel->NewerThan(5)->weights, nullptr);
}

TEST(LocalWeightChannel, RefusesAVersionThatIsNotAboveTheNewest) {
  const auto channel = NewLocalWeightChannel();
  ASSERT_TRUE(channel->Publish(NumberVersion(3)).ok());
  EXPECT_EQ(channel->Publish(NumberVersion(3)).code(), Code::kInvalid);
  EXPECT_EQ(channel->Publish(NumberVersion(2)).code(), Code::kInvalid);
  EXPECT_EQ(channel->Publish({.version = 9, .step = 9, .weights = nullptr}).code(), Code::kInvalid);
  EXPECT_EQ(channel->NewerThan(0)->version, 3u);
}

TEST(LocalWeightChannel, LetsGoOfWhatItsSubscriberHasTaken) {
  for (const HoldWeights hold : {HoldWeights::kUntilNext, HoldWeights::kUntilTaken}) {
    const auto channel = NewLocalWeightChannel(hold);
    ASSERT_TRUE(channel->Publish(NumberVersion(3)).ok());
    const std::weak_ptr<const Weights> first = channel->NewerThan(0)->weights;
    channel->Taken(2);
    EXPECT_FALSE(first.expired());
    channel->Taken(3);
    EXPECT_EQ(first.expired(), hold == HoldWeights::kUntilTaken);
    EXPECT_EQ(channel->NewerThan(0)->weights == nullptr, hold == HoldWeights::kUntilTaken);
    EXPECT_EQ(channel->Publish(NumberVersion(3)).code(), Code::kInvalid);
    ASSERT_TRUE(channel->Publish(NumberVersion(4)).ok());
    EXPECT_EQ(NumberIn(channel->NewerThan(3)->weights), 4u);
  }
}

TEST(LocalWeightChannel, WhatIsReadIsWholeWhileOthersPublish) {
  const auto channel = NewLocalWeightChannel();
  std::thread publisher([&] {
    for (uint64_t version = 1; version <= 2000; ++version) {
      ASSERT_TRUE(channel->Publish(NumberVersion(version)).ok());
    }
  });
  uint64_t have = 0;
  while (have < 2000) {
    const auto newer = channel->NewerThan(have);
    if (newer->weights == nullptr) continue;
    EXPECT_GT(newer->version, have);
    EXPECT_EQ(NumberIn(newer->weights), newer->version);
    have = newer->version;
  }
  publisher.join();
}

}  // namespace
}  // namespace tidemill
