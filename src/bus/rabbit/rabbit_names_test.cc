#include "bus/rabbit/rabbit_names.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tidemill {
namespace {

TEST(RabbitNames, AParkingTimeIsNoShorterThanTheDelayAndAQuarterLongerAtMost) {
  for (int64_t ms = 16; ms < (int64_t{1} << 30); ms = ms * 9 / 8 + 1) {
    const Duration delay = milliseconds(ms), level = ParkingLevel(delay);
    EXPECT_GE(level, delay) << ms;
    EXPECT_LE(level, delay + delay / 4 + milliseconds(1)) << ms;
  }
  EXPECT_EQ(ParkingLevel(milliseconds(1)), milliseconds(16));
  EXPECT_EQ(ParkingLevel(std::chrono::hours(24 * 365)), ParkingLevels().back());
  EXPECT_TRUE(std::ranges::is_sorted(ParkingLevels()));
}

TEST(RabbitNames, TheQueueOfAWorkersTopicGoesByItself) {
  const RabbitNames names("run");
  const auto expires = [&](std::string_view topic) {
    const auto& arguments = TopicQueue(names, topic, false).arguments;
    return std::ranges::any_of(arguments, [](const auto& one) { return one.first == "x-expires"; });
  };
  EXPECT_TRUE(expires("inbox.rollout-host-1.rollout"));
  EXPECT_FALSE(expires("rollout.groups"));
}

TEST(RabbitNames, ARunThatQueuesCannotBeNamedAfterIsInvalid) {
  EXPECT_TRUE(CheckRabbitRun("my-run.2").ok());
  EXPECT_EQ(CheckRabbitRun("").code(), Code::kInvalid);
  EXPECT_EQ(CheckRabbitRun("a/b").code(), Code::kInvalid);
  EXPECT_EQ(CheckRabbitRun(std::string(49, 'a')).code(), Code::kInvalid);
}

}  // namespace
}  // namespace tidemill
