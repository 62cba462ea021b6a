#include "core/version_steps.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(VersionSteps, LagIsCountedInStepsNotInVersionNumbers) {
  VersionSteps versions;
  versions.Published(10, 0), versions.Published(20, 1), versions.Published(30, 4);
  EXPECT_EQ(versions.Lag(30, 4), 0u);
  EXPECT_EQ(versions.Lag(20, 4), 3u);
  EXPECT_EQ(versions.Lag(10, 4), 4u);
  EXPECT_EQ(versions.Lag(25, 4), 3u) << "one that was never published is as old as the one before";
  EXPECT_EQ(versions.Lag(20, 0), 0u) << "never negative";
}

TEST(VersionSteps, WhatIsNewerThanAllIsFreshAndWhatIsOlderThanAllIsOverEveryBound) {
  VersionSteps versions;
  EXPECT_EQ(versions.Lag(7, 100), 0u) << "nothing is known";
  versions.Published(10, 5);
  EXPECT_EQ(versions.Lag(11, 100), 0u);
  EXPECT_EQ(versions.Lag(9, 5), UINT64_MAX);
  EXPECT_FALSE(versions.Known(11));
  EXPECT_TRUE(versions.Known(9)) << "too old to be remembered";
}

TEST(VersionSteps, TheOldestAreForgotten) {
  VersionSteps versions;
  for (uint64_t version = 1; version <= 5000; ++version) versions.Published(version, version - 1);
  EXPECT_EQ(versions.all().size(), 4096u);
  EXPECT_EQ(versions.Lag(1, 5000), UINT64_MAX);
  EXPECT_EQ(versions.Lag(4999, 5000), 2u);
}

}  // namespace
}  // namespace tidemill
