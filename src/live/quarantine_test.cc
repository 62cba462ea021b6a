#include "live/quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr LiveBaseline::Comparison kAlike{.mean = 0.9, .deviation = 0.1, .others = 40};
constexpr LiveBaseline::Comparison kMixed{.mean = 0.2, .deviation = 0.9, .others = 40};

TEST(Quarantine, ARewardFarFromAllOthersIsHeldUntilItIsRevised) {
  Quarantine quarantine({.outlier = 6});
  quarantine.Put("ann", 1, -1, kAlike);
  quarantine.Put("ann", 2, -1, kMixed);
  quarantine.Put("ann", 3, -1, {.mean = 0.9, .deviation = 0.1, .others = 15});
  EXPECT_TRUE(quarantine.Holds("ann", 1));
  EXPECT_FALSE(quarantine.Holds("ann", 2)) << "others disagree as much";
  EXPECT_FALSE(quarantine.Holds("ann", 3)) << "too few others";
  EXPECT_THAT(quarantine.Json(), HasSubstr("reward -1.00, 40 others 0.90"));
  quarantine.Put("ann", 1, 0.8, kAlike);
  EXPECT_FALSE(quarantine.Holds("ann", 1));
}

// 72 rewards of 0.5 in the mean, then 24 of `then`.
void Change(Quarantine& quarantine, const std::string& tenant, double then) {
  for (uint64_t session = 1; session <= 72; ++session) {
    quarantine.Put(tenant, session, session % 4 == 0 ? -1 : 1, kMixed);
  }
  for (uint64_t session = 73; session <= 96; ++session) {
    quarantine.Put(tenant, session, then, kMixed);
  }
}

TEST(Quarantine, ATenantWhoseRewardsChangeAtOnceIsHeldAndOthersAreNot) {
  Quarantine quarantine({.change = 1});
  Change(quarantine, "ann", -1);
  Change(quarantine, "bob", -0.4);
  EXPECT_TRUE(quarantine.Holds("ann", 97));
  EXPECT_FALSE(quarantine.Holds("bob", 197));
  EXPECT_EQ(quarantine.tenants(), 1u);
  EXPECT_EQ(quarantine.sessions(), 1u);
}

TEST(Quarantine, TheOperatorDecides) {
  Quarantine quarantine({.change = 1});
  Change(quarantine, "ann", -1);
  EXPECT_TRUE(quarantine.Holds("ann", 97));
  EXPECT_TRUE(quarantine.Holds("ann", 98));
  EXPECT_EQ(quarantine.Decide("bob", true).status().code(), Code::kNotFound);
  EXPECT_THAT(*quarantine.Decide("ann", true), ElementsAre(97, 98));
  EXPECT_FALSE(quarantine.Holds("ann", 97));
  EXPECT_FALSE(quarantine.Holds("ann", 99)) << "judged anew";
  Change(quarantine, "bob", -1);
  EXPECT_TRUE(quarantine.Holds("bob", 197));
  EXPECT_THAT(*quarantine.Decide("bob", false), ElementsAre(197));
  EXPECT_TRUE(quarantine.Holds("bob", 197)) << "never trained on";
  EXPECT_FALSE(quarantine.Holds("bob", 198));
}

TEST(Quarantine, ALaterProcessGoesOnWithIt) {
  Quarantine first({.change = 1});
  Change(first, "ann", -1);
  Change(first, "bob", -1);
  EXPECT_TRUE(first.Holds("bob", 197));
  ASSERT_TRUE(first.Decide("bob", false).ok());
  Quarantine second({.change = 1}, first.Json());
  EXPECT_TRUE(second.Holds("ann", 97));
  EXPECT_TRUE(second.Holds("bob", 197));
  EXPECT_FALSE(second.Holds("bob", 198));
  for (const char* damaged : {"", "{", "[]", R"({"tenants": 7})", R"({"tenants": [{}]})"}) {
    EXPECT_EQ(Quarantine({.change = 1}, damaged).tenants(), 0u) << damaged;
  }
}

TEST(Quarantine, WhatIsDeletedLeavesNothing) {
  Quarantine quarantine({.change = 1});
  Change(quarantine, "ann", -1);
  EXPECT_TRUE(quarantine.Holds("ann", 97));
  for (uint64_t session = 1; session <= 97; ++session) quarantine.Forget("ann", session);
  EXPECT_EQ(quarantine.Json().find("ann"), std::string::npos);
}

}  // namespace
}  // namespace tidemill
