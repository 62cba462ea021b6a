#include "replay/rate_limiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "core/random.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

TEST(RateLimiter, SamplesOnlyOnceThereIsEnoughAndKeepsTheRatio) {
  const RateLimits limits{
      .samples_per_insert = 2, .min_size = 3, .min_balance = 0, .max_balance = 8};
  ASSERT_TRUE(ValidateRateLimits(limits).ok());
  RateLimiter limiter(limits);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(limiter.CanInsert());
    limiter.Inserted();
    EXPECT_FALSE(limiter.CanSample());
  }
  limiter.Inserted();  // balance 6
  EXPECT_TRUE(limiter.CanSample(6));
  EXPECT_FALSE(limiter.CanSample(7));
  EXPECT_TRUE(limiter.CanInsert());
  limiter.Inserted();  // balance 8
  EXPECT_FALSE(limiter.CanInsert());
  limiter.Sampled(2);
  EXPECT_TRUE(limiter.CanInsert());
  limiter.Sampled(6);
  EXPECT_FALSE(limiter.CanSample());
}

TEST(RateLimiter, AnEvictedItemTakesWhatItWasStillOwedWithIt) {
  RateLimiter limiter({.samples_per_insert = 2, .min_size = 1, .min_balance = 0, .max_balance = 4});
  limiter.Inserted(2);
  EXPECT_FALSE(limiter.CanInsert());
  limiter.Removed(0);
  EXPECT_DOUBLE_EQ(limiter.balance(), 2);
  EXPECT_TRUE(limiter.CanInsert());
  limiter.Sampled(2);
  limiter.Removed(2);
  EXPECT_DOUBLE_EQ(limiter.balance(), 0);
}

TEST(RateLimiter, RefusesLimitsThatWouldLockUp) {
  EXPECT_THAT(ValidateRateLimits({.samples_per_insert = 0}).message(), HasSubstr("above 0"));
  EXPECT_THAT(ValidateRateLimits(
                  {.samples_per_insert = 2, .min_size = 1, .min_balance = 0, .max_balance = 2})
                  .message(),
              HasSubstr("at least 3.0"));
  EXPECT_THAT(
      ValidateRateLimits({.samples_per_insert = 1, .min_size = 1, .min_balance = 5}).message(),
      HasSubstr("a first sample must be possible"));
}

// Whatever happens (evictions, drops, uses), at least one of insert and sample is possible, so the
// buffer never stands still.
TEST(RateLimiter, NeverBlocksBothSidesUnderRandomEvictions) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    RateLimits limits;
    limits.samples_per_insert = 0.25 + random.Uniform() * 4;
    limits.min_size = 1 + random.Below(5);
    limits.inserts_at_once = 1 + random.Below(4);
    limits.samples_at_once = 1 + random.Below(4);
    limits.min_balance = limits.samples_per_insert * static_cast<double>(limits.min_size) -
                         static_cast<double>(limits.samples_at_once) - random.Uniform();
    limits.max_balance = limits.min_balance + static_cast<double>(limits.samples_at_once) +
                         limits.samples_per_insert * static_cast<double>(limits.inserts_at_once);
    ASSERT_TRUE(ValidateRateLimits(limits).ok());
    RateLimiter limiter(limits);
    std::deque<uint64_t> uses;
    for (int i = 0; i < 300; ++i) {
      const bool insert = limiter.CanInsert(limits.inserts_at_once);
      const bool sample = limiter.CanSample(limits.samples_at_once);
      ASSERT_TRUE(insert || sample) << "at " << i << " with balance " << limiter.balance();
      if (insert && (!sample || random.Chance(0.5))) {
        limiter.Inserted(limits.inserts_at_once);
        uses.resize(uses.size() + limits.inserts_at_once, 0);
      } else {
        limiter.Sampled(limits.samples_at_once);
        for (uint64_t k = 0; k < limits.samples_at_once; ++k) ++uses[random.Below(uses.size())];
      }
      while (!uses.empty() && random.Chance(0.4)) {
        limiter.Removed(uses.front());
        uses.pop_front();
      }
      ASSERT_EQ(limiter.size(), uses.size());
    }
  }
}

}  // namespace
}  // namespace tidemill
