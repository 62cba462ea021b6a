#include "replay/rate_limiter.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/random.h"

namespace tidemill {
namespace {

TEST(RateLimiter, SamplesOnlyOnceThereIsEnoughAndKeepsTheRatio) {
  RateLimiter limiter(/*samples_per_insert=*/2, /*min_size=*/3);
  for (int i = 0; i < 2; ++i) {
    limiter.Inserted();
    EXPECT_FALSE(limiter.CanSample());
  }
  limiter.Inserted();
  EXPECT_TRUE(limiter.CanSample(6));
  EXPECT_FALSE(limiter.CanSample(7));
  limiter.Sampled(6);
  EXPECT_FALSE(limiter.CanSample());
  limiter.Inserted();
  EXPECT_TRUE(limiter.CanSample(2));
}

TEST(RateLimiter, AnEvictedItemTakesWhatItWasStillOwedWithIt) {
  RateLimiter limiter(2, 1);
  limiter.Inserted(), limiter.Inserted();
  limiter.Removed(0);
  EXPECT_TRUE(limiter.CanSample(2));
  EXPECT_FALSE(limiter.CanSample(3));
  limiter.Sampled(2);
  limiter.Removed(2);
  limiter.Inserted();
  EXPECT_TRUE(limiter.CanSample(2)) << "what was sampled to its share owes nothing";
}

TEST(RateLimiter, WhateverLeavesNoMoreIsSampledThanWasPaidForAndAnInsertAlwaysHelps) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto paid = static_cast<uint32_t>(1 + random.Below(4));
    RateLimiter limiter(paid, 1 + random.Below(5));
    std::vector<uint64_t> uses;  // of what is there
    uint64_t inserted = 0, sampled = 0;
    for (int i = 0; i < 300; ++i) {
      if (limiter.CanSample() && random.Chance(0.5)) {
        limiter.Sampled();
        ++sampled;
        ++uses[random.Below(uses.size())];
      } else {
        limiter.Inserted();
        ++inserted;
        uses.push_back(0);
      }
      ASSERT_LE(sampled, inserted * paid);
      while (!uses.empty() && random.Chance(0.4)) {
        limiter.Removed(uses.back());
        uses.pop_back();
      }
    }
    for (int i = 0; i < 2000 && !limiter.CanSample(); ++i) limiter.Inserted();
    EXPECT_TRUE(limiter.CanSample());
  }
}

}  // namespace
}  // namespace tidemill
