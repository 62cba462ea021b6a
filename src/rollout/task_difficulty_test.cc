#include "rollout/task_difficulty.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(TaskDifficulty, TasksAtTheEdgeOfWhatThePolicyCanDoAreWorthTheMost) {
  TaskDifficulty difficulty(4, 0.1, 1);
  difficulty.Heard(0, 0, 16);
  difficulty.Heard(1, 8, 16);
  difficulty.Heard(2, 16, 16);
  EXPECT_EQ(difficulty.Chance(0), 0.1);
  EXPECT_EQ(difficulty.Chance(1), 1.0);
  EXPECT_EQ(difficulty.Chance(2), 0.1);
  EXPECT_EQ(difficulty.Chance(3), 1.0);  // not known yet
}

TEST(TaskDifficulty, FollowsThePolicy) {
  TaskDifficulty difficulty(1, 0.1, 1);
  difficulty.Heard(0, 0, 16);
  difficulty.Heard(0, 8, 16);
  EXPECT_GT(difficulty.Chance(0), 0.7);
  difficulty.Heard(0, 0, 0);  // nothing was scored
  EXPECT_GT(difficulty.Chance(0), 0.7);
}

TEST(TaskDifficulty, IssuesAsOftenAsItSays) {
  TaskDifficulty difficulty(1, 0.25, 7);
  difficulty.Heard(0, 0, 16);
  int issued = 0;
  for (int i = 0; i < 4000; ++i) issued += difficulty.Worth(0) ? 1 : 0;
  EXPECT_NEAR(issued, 1000, 120);
  TaskDifficulty always(1, 1, 7);
  always.Heard(0, 0, 16);
  EXPECT_TRUE(always.Worth(0));
}

}  // namespace
}  // namespace tidemill
