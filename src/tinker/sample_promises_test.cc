#include "tinker/sample_promises.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

constexpr SamplePromiseLimits kFew{.waiting_max = 8, .bytes_max = 100};

OpResult Settled(size_t bytes) {
  return {.done = true, .failed = false, .binary = true, .body = std::string(bytes, 'x')};
}

TEST(SamplePromises, ARepeatedNumberIsTheSamePromise) {
  SamplePromises promises("m", kFew);
  const auto first = promises.Make("t", 0, "S1:sample:0", 1);
  ASSERT_TRUE(first.ok() && first->fresh);
  const auto again = promises.Make("t", 0, "S1:sample:0", 1);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->fresh);
  EXPECT_EQ(again->id, first->id);
  EXPECT_TRUE(promises.Make("t", 0, "S1:sample:1", 1)->fresh);
}

TEST(SamplePromises, AnotherTenantsIsUnknownAndResultsMayBeReadAgain) {
  SamplePromises promises("m", kFew);
  const std::string id = promises.Make("t", 0, "s", 1)->id;
  EXPECT_FALSE(promises.Find(id, "t")->done);
  promises.Finish(id, Settled(3), Time{});
  EXPECT_EQ(promises.Find(id, "t")->body, "xxx");
  EXPECT_EQ(promises.Find(id, "t")->body, "xxx");
  EXPECT_FALSE(promises.Find(id, "other"));
  EXPECT_FALSE(promises.Find("s.other.1", "t"));
}

TEST(SamplePromises, ATenantTakesHalfOfWhatIsFreeAtMost) {
  SamplePromises promises("m", kFew);
  uint64_t seq = 0;
  while (promises.Make("greedy", 0, "s", seq).ok()) ++seq;
  EXPECT_EQ(seq, 5u);
  EXPECT_TRUE(promises.Make("other", 0, "o", 1).ok());
  EXPECT_TRUE(promises.Make("bounded", 1, "b", 1).ok());
  EXPECT_EQ(promises.Make("bounded", 1, "b", 2).status().code(), Code::kFull);
}

TEST(SamplePromises, WhatNobodyCollectsGoesTheOldestFirst) {
  SamplePromises promises("m", kFew);
  std::vector<std::string> ids;
  for (uint64_t seq = 0; seq < 4; ++seq) {
    ids.push_back(promises.Make("t", 0, "s", seq)->id);
    promises.Finish(ids.back(), Settled(40), Time{});
  }
  EXPECT_EQ(promises.bytes(), 80u);
  EXPECT_FALSE(promises.Find(ids[1], "t"));
  EXPECT_TRUE(promises.Find(ids[3], "t"));
  EXPECT_TRUE(promises.Make("t", 0, "s", 0)->fresh);  // asked anew
  promises.ForgetOld(Time{} + kFew.keep);
  EXPECT_EQ(promises.bytes(), 0u);
  EXPECT_EQ(promises.waiting(), 1u);
}

}  // namespace
}  // namespace tidemill
