#include "engine/held_versions.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

constexpr PolicyId kCoder{1}, kPlanner{2}, kCritic{3};

TEST(HeldVersions, AnotherPolicyIsRefusedWhereAPinnedOneWouldHaveNoPlaceForItsNext) {
  HeldVersions held(1, 2, 1);
  held.Took(held.PlaceForNew(kCoder).value(), {kCoder, 1});
  ASSERT_TRUE(held.Pin({kCoder, 1}).ok());
  EXPECT_EQ(held.PlaceForNew(kPlanner).status().code(), Code::kUnavailable);
  held.Took(held.PlaceForNew(kCoder).value(), {kCoder, 2});
  EXPECT_EQ(held.PlaceOf({kCoder, 1}), 1);
  EXPECT_EQ(held.PlaceOf({kCoder, 2}), 2);
  EXPECT_EQ(held.Pin({kCoder, 2}).code(), Code::kUnavailable);
  EXPECT_EQ(held.PlaceForNew(kPlanner).status().code(), Code::kUnavailable);
  held.Unpin({kCoder, 1});
  held.Took(held.PlaceForNew(kPlanner).value(), {kPlanner, 1});
  EXPECT_EQ(held.PlaceOf({kPlanner, 1}), 1);
  EXPECT_EQ(held.Pin({kCoder, 1}).code(), Code::kNotFound);
  EXPECT_EQ(held.PlaceForNew(kCritic).status().code(), Code::kUnavailable);
}

TEST(HeldVersions, PoliciesWithTheSameVersionNumberAreNotMixedUp) {
  HeldVersions held(2, 2, 7);
  held.Took(held.PlaceForNew(kCoder).value(), {kCoder, 7});
  held.Took(held.PlaceForNew(kPlanner).value(), {kPlanner, 7});
  EXPECT_EQ(held.PlaceOf({PolicyId::kMain, 7}), 0);
  EXPECT_EQ(held.PlaceOf({kCoder, 7}), 2);
  EXPECT_EQ(held.PlaceOf({kPlanner, 7}), 3);
  ASSERT_TRUE(held.Alias(7, 8).ok());
  EXPECT_EQ(held.PlaceOf({PolicyId::kMain, 8}), 0);
  EXPECT_EQ(held.Pin({kCoder, 8}).code(), Code::kNotFound);
}

TEST(HeldVersions, WhatAForgottenPolicyHadIsEmptyAndTheMainPolicyKeepsItsPlaces) {
  HeldVersions held(2, 2, 1);
  held.Took(held.PlaceForNew(kCoder).value(), {kCoder, 1});
  held.Took(held.PlaceForNew(kCoder).value(), {kCoder, 2});
  held.Took(held.PlaceForNew(PolicyId::kMain).value(), {PolicyId::kMain, 2});
  EXPECT_EQ(held.held(), 4u);
  const std::vector<PolicyVersion> gone = held.Forget(kCoder);
  EXPECT_EQ(gone, (std::vector<PolicyVersion>{{kCoder, 1}, {kCoder, 2}}));
  EXPECT_EQ(held.Newest(kCoder), std::nullopt);
  EXPECT_EQ(held.held(), 2u);
  EXPECT_EQ(held.PlaceForNew(kPlanner).value(), 2);
}

}  // namespace
}  // namespace tidemill
