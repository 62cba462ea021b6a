#include "model/multiprocessor_share.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace tidemill {
namespace {

constexpr MultiprocessorCounts kHopper{.all = 132, .smallest = 8, .step = 8};

TEST(LearnerMultiprocessors, IsTheLargestGroupThatLeavesAsManyAsAskedFor) {
  for (int reserved = 1; reserved <= 124; ++reserved) {
    const Result<int> learner = LearnerMultiprocessors(kHopper, reserved);
    ASSERT_TRUE(learner.ok()) << reserved;
    EXPECT_EQ(*learner % 8, 0) << reserved;
    EXPECT_GE(132 - *learner, reserved);
    EXPECT_LT(132 - (*learner + 8), reserved);
  }
  EXPECT_EQ(*LearnerMultiprocessors(kHopper, 16), 112);
  EXPECT_EQ(*LearnerMultiprocessors({.all = 132}, 16), 116);
}

TEST(LearnerMultiprocessors, SaysHowManyCanBeReservedWhereTheLearnerWouldHaveTooFew) {
  for (const int reserved : {125, 132, 200, 2000000000}) {
    const Result<int> learner = LearnerMultiprocessors(kHopper, reserved);
    ASSERT_FALSE(learner.ok()) << reserved;
    EXPECT_EQ(learner.status().code(), Code::kInvalid);
    EXPECT_EQ(learner.status().message(), std::to_string(reserved) +
                                              " of 132 multiprocessors cannot be reserved; at "
                                              "most 124 can");
  }
  // The smallest group is rounded up to a size that groups have.
  EXPECT_FALSE(LearnerMultiprocessors({.all = 20, .smallest = 9, .step = 8}, 8).ok());
  EXPECT_EQ(*LearnerMultiprocessors({.all = 20, .smallest = 9, .step = 8}, 4), 16);
}

// A driver whose groups are rounded up by `more`, and which fails where it is told to.
class FakeMultiprocessors final : public MultiprocessorDriver {
 public:
  Result<MultiprocessorCounts> Counts() override {
    if (fails_ == "counts") return Unavailable("no counts");
    return kHopper;
  }
  Result<int> Group(int count) override {
    if (fails_ == "group") return Unavailable("no group");
    asked_.push_back(count);
    return std::min(count + more_, 132);
  }
  Result<void*> Stream() override {
    if (fails_ == "stream") return Unavailable("no stream");
    ++streams_;
    return static_cast<void*>(this);
  }
  Status Try(void* stream) override {
    EXPECT_EQ(stream, this);
    return fails_ == "try" ? Internal("the stream computes something else") : Ok();
  }

  std::string fails_;
  int more_ = 0;
  int streams_ = 0;
  std::vector<int> asked_;
};

TEST(MultiprocessorShare, HasTheStreamOfAGroupThatLeavesEnoughFree) {
  FakeMultiprocessors driver;
  const auto share = MakeShare(driver, 16);
  ASSERT_TRUE(share.ok()) << share.status().ToString();
  EXPECT_EQ(share->all, 132);
  EXPECT_EQ(share->learner, 112);
  EXPECT_EQ(share->stream, &driver);
  EXPECT_EQ(driver.asked_, std::vector<int>{112});
}

TEST(MultiprocessorShare, AsksForASmallerGroupWhereTheDriverRoundsUpTooFar) {
  FakeMultiprocessors driver;
  driver.more_ = 12;
  const auto share = MakeShare(driver, 16);
  ASSERT_TRUE(share.ok()) << share.status().ToString();
  EXPECT_EQ(driver.asked_, (std::vector<int>{112, 104}));
  EXPECT_EQ(share->learner, 116);
}

TEST(MultiprocessorShare, IsUnavailableWhereNoGroupLeavesEnoughFree) {
  FakeMultiprocessors driver;
  driver.more_ = 132;
  const auto share = MakeShare(driver, 16);
  ASSERT_FALSE(share.ok());
  EXPECT_EQ(share.status().code(), Code::kUnavailable);
  EXPECT_NE(share.status().message().find("leaves 16 of 132 free"), std::string::npos);
  EXPECT_EQ(driver.streams_, 0);
}

TEST(MultiprocessorShare, FailsAsTheDriverDoes) {
  for (const char* fails : {"counts", "group", "stream", "try"}) {
    FakeMultiprocessors driver;
    driver.fails_ = fails;
    EXPECT_FALSE(MakeShare(driver, 16).ok()) << fails;
  }
  FakeMultiprocessors driver;
  EXPECT_EQ(MakeShare(driver, 130).status().code(), Code::kInvalid);
  EXPECT_TRUE(driver.asked_.empty());
}

TEST(EntryPoints, AreFoundInOrderOrTheMissingOnesAreNamed) {
  const std::array names = {"one", "two", "three"};
  int one = 0, two = 0, three = 0;
  const auto all = FindEntryPoints(names, [&](const char* name) -> void* {
    return std::string(name) == "one" ? &one : std::string(name) == "two" ? &two : &three;
  });
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, (std::vector<void*>{&one, &two, &three}));
  const auto some = FindEntryPoints(names, [&](const char* name) -> void* {
    return std::string(name) == "two" ? &two : nullptr;
  });
  ASSERT_FALSE(some.ok());
  EXPECT_EQ(some.status().code(), Code::kUnavailable);
  EXPECT_EQ(some.status().message(), "the driver has no one, three");
}

}  // namespace
}  // namespace tidemill
