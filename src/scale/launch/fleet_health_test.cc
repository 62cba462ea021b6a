#include "scale/launch/fleet_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

FleetFile TwoOfRollout() {
  FleetFile fleet;
  fleet.workers = {{.role = "rollout"},
                   {.role = "rollout"},
                   {.role = "learner"},
                   {.role = "tools"},
                   {.role = "reward"}};
  return fleet;
}

WorkerHealth Worker(const std::string& role, const std::string& state, double busy = 0) {
  WorkerHealth worker;
  worker.role = role;
  worker.state = state;
  worker.busy = busy;
  return worker;
}

TEST(FleetHealth, AFleetIsThereWhenEveryWorkerOfTheFileIsInTheRoster) {
  std::vector<WorkerHealth> workers = {Worker("learner", "here"), Worker("tools", "here"),
                                       Worker("reward", "here"), Worker("rollout", "here", 0.5),
                                       Worker("rollout", "lost")};
  const auto before = RolesOf(TwoOfRollout(), workers);
  ASSERT_EQ(before.size(), 4u);
  EXPECT_EQ(before[0].role, "learner");
  EXPECT_EQ(RoleWords(before[1]), "1 of 2 here, 1 lost");
  EXPECT_FALSE(IsThere(before));
  workers.push_back(Worker("rollout", "here", 1));
  const auto after = RolesOf(TwoOfRollout(), workers);
  EXPECT_EQ(RoleWords(after[1]), "2 of 2 here, 1 lost");
  EXPECT_DOUBLE_EQ(after[1].busy, 0.75);
  EXPECT_TRUE(IsThere(after));
}

TEST(FleetHealth, WhatStatusPrintsIsReadAndAnythingElseIsCorrupt) {
  const auto read = ReadHealth(
      R"({"run":"demo","workers":[{"worker":"tools-a-7","role":"tools","state":"lost","host":"a",
          "pid":7,"beat_age_s":31.5,"doing":"runs 2 calls","busy":0.25,"rate":null,"rate_of":"",
          "numbers":{}}],"topics":[]})");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_TRUE((*read)[0].lost());
  EXPECT_EQ((*read)[0].beat_age_s, 31.5);
  EXPECT_EQ(ReadHealth("Error from server").status().code(), Code::kCorrupt);
  EXPECT_EQ(ReadHealth("{}").status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace tidemill
