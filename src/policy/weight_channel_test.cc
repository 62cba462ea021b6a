#include "policy/weight_channel.h"

#include <gtest/gtest.h>

#include <thread>

namespace tidemill {

// The channel never looks inside; here a number stands for the weights.
class PolicyWeights {
 public:
  explicit PolicyWeights(uint64_t n) : number(n) {}
  uint64_t number;
};

namespace {

PublishedWeights Version(uint64_t version) {
  return {.version = version, .step = version, .weights = std::make_shared<PolicyWeights>(version)};
}

TEST(LocalWeightChannel, GivesTheNewestVersionOnlyIfItIsNewer) {
  const auto channel = NewLocalWeightChannel();
  EXPECT_EQ(channel->NewerThan(0)->weights, nullptr);
  ASSERT_TRUE(channel->Publish(Version(3)).ok());
  ASSERT_TRUE(channel->Publish(Version(5)).ok());
  const auto newer = channel->NewerThan(3);
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(newer->version, 5u);
  EXPECT_EQ(newer->weights->number, 5u);
  EXPECT_EQ(channel->NewerThan(5)->weights, nullptr);
}

TEST(LocalWeightChannel, RefusesAVersionThatIsNotAboveTheNewest) {
  const auto channel = NewLocalWeightChannel();
  ASSERT_TRUE(channel->Publish(Version(3)).ok());
  EXPECT_EQ(channel->Publish(Version(3)).code(), Code::kInvalid);
  EXPECT_EQ(channel->Publish(Version(2)).code(), Code::kInvalid);
  EXPECT_EQ(channel->Publish({.version = 9, .step = 9, .weights = nullptr}).code(), Code::kInvalid);
  EXPECT_EQ(channel->NewerThan(0)->version, 3u);
}

TEST(LocalWeightChannel, WhatIsReadIsWholeWhileOthersPublish) {
  const auto channel = NewLocalWeightChannel();
  std::thread publisher([&] {
    for (uint64_t version = 1; version <= 2000; ++version) {
      ASSERT_TRUE(channel->Publish(Version(version)).ok());
    }
  });
  uint64_t have = 0;
  while (have < 2000) {
    const auto newer = channel->NewerThan(have);
    if (newer->weights == nullptr) continue;
    EXPECT_GT(newer->version, have);
    EXPECT_EQ(newer->weights->number, newer->version);
    have = newer->version;
  }
  publisher.join();
}

}  // namespace
}  // namespace tidemill
