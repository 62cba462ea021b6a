#include "sim/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill::sim {
namespace {

constexpr uint64_t kSeeds = 1000;

TEST(Simulation, KeepsItsPromisesOverManySeeds) {
  uint64_t crashes = 0, resumes = 0, rescored = 0, turns = 0, retries = 0, branches = 0;
  uint64_t deletions = 0, releases = 0, background = 0, delivered = 0, interrupted = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const SimReport report = RunSimulation({.seed = seed});
    ASSERT_TRUE(report.ok) << report.failure << "\nreplay: tidemill sim --seed " << seed
                           << " --trace";
    crashes += report.crashes;
    resumes += report.resumes;
    rescored += report.rescored;
    turns += report.client_turns, retries += report.client_retries;
    branches += report.client_branches, deletions += report.client_deletions;
    releases += report.releases;
    background += report.background, delivered += report.delivered;
    interrupted += report.interrupted;
  }
  // The seeds must have had something to survive.
  EXPECT_GT(crashes, kSeeds);
  EXPECT_GT(resumes, kSeeds / 10);
  EXPECT_GT(rescored, kSeeds / 10);
  EXPECT_GT(turns, 4 * kSeeds);
  EXPECT_GT(retries, kSeeds);
  EXPECT_GT(branches, kSeeds / 4);
  EXPECT_GT(deletions, kSeeds / 4);
  EXPECT_GT(releases, kSeeds / 8);
  EXPECT_GT(background, kSeeds);
  EXPECT_GT(delivered, kSeeds / 4);
  EXPECT_GT(interrupted, kSeeds / 40);
}

TEST(Simulation, TheSameSeedGivesTheSameRun) {
  for (uint64_t seed : {3, 17, 99}) {
    const SimReport a = RunSimulation({.seed = seed}), b = RunSimulation({.seed = seed});
    EXPECT_EQ(a.loop_steps, b.loop_steps);
    EXPECT_EQ(a.virtual_seconds, b.virtual_seconds);
    EXPECT_EQ(a.trajectories, b.trajectories);
  }
}

// A tool of ours that never works: its calls are repeated, then the agent is told or the episode is
// stale, as configured, and the learner still gets to its last step.
TEST(Simulation, ATrainingGoesOnWhereAToolAlwaysFails) {
  SimReport stale, skip;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    for (const bool skips : {false, true}) {
      const SimReport report =
          RunSimulation({.seed = seed, .broken_tool = "lint", .skip_unavailable = skips});
      ASSERT_TRUE(report.ok) << report.failure << ", seed " << seed;
      SimReport& sum = skips ? skip : stale;
      sum.stale += report.stale, sum.skipped += report.skipped, sum.retries += report.retries;
    }
  }
  EXPECT_GT(stale.stale, 40u);
  EXPECT_EQ(stale.skipped, 0u);
  EXPECT_GT(skip.skipped, 40u);
  EXPECT_GT(skip.retries, 3 * skip.skipped - 1);
}

// A worker whose messages are altered at random costs its own groups and nothing else: every dead
// letter is its doing, all other episodes are trained on as they were sent, and the run gets to its
// end.
TEST(Simulation, AForgerCostsOnlyItsOwnGroups) {
  uint64_t refused = 0;
  for (uint64_t seed = 1; seed <= kSeeds / 8; ++seed) {
    const SimReport report = RunSimulation({.seed = seed, .forger = true});
    ASSERT_TRUE(report.ok) << report.failure << ", seed " << seed;
    refused += report.refused;
  }
  EXPECT_GT(refused, kSeeds / 8);
}

class PlantedBug : public testing::TestWithParam<std::pair<Bug, const char*>> {};

TEST_P(PlantedBug, IsFoundWithinAThousandSeeds) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Bug bug = GetParam().first;
    const bool forger = bug == Bug::kTokenNotChecked || bug == Bug::kBoundsNotChecked;
    const SimReport report = RunSimulation({.seed = seed, .bug = bug, .forger = forger});
    if (report.ok) continue;
    EXPECT_THAT(report.failure, testing::ContainsRegex(GetParam().second)) << "seed " << seed;
    return;
  }
  FAIL() << "no seed found it";
}

INSTANTIATE_TEST_SUITE_P(
    Simulation, PlantedBug,
    testing::Values(std::pair{Bug::kAcknowledgeBeforeInsert, "acknowledged before it was durable"},
                    std::pair{Bug::kLeaseNotExtended, "ran out although its holder lives"},
                    std::pair{Bug::kDroppedKeepsCredit, "starved"},
                    std::pair{Bug::kGateOffByOne, "the gate let"},
                    std::pair{Bug::kVersionReused, "published twice"},
                    std::pair{Bug::kSampledTooOften, "paid for by inserts"},
                    std::pair{Bug::kDeadScorerIsZero, "became a zero"},
                    std::pair{Bug::kFailedVoteIsZero, "vote that failed became a zero"},
                    std::pair{Bug::kHeldBackForever, "starved"},
                    std::pair{Bug::kAwayTeacherAgrees, "that the teacher did not give"},
                    std::pair{Bug::kDeliveredTwice, "was delivered twice"},
                    std::pair{Bug::kDeliveredToAnother, "given to another episode"},
                    std::pair{Bug::kDeliveredAfterEnd, "after the episode's end"},
                    std::pair{Bug::kCancelledIsCharged, "cancelled call was charged"},
                    std::pair{Bug::kTrainedUnderAnother, "was trained under"},
                    // Replay refuses the episode.
                    std::pair{Bug::kVersionOfAnother, "is of another policy"},
                    std::pair{Bug::kRoleOfAnother, "messages died|starved|is of another policy"},
                    std::pair{Bug::kTokenNotChecked, "which it never had"},
                    // The learner sees such an id, or before it the teacher.
                    std::pair{Bug::kBoundsNotChecked, "what no loss can bear|is not between 0 and"},
                    std::pair{Bug::kLostBoxIsAResult, "whose box was lost reached a loss"},
                    std::pair{Bug::kTrainedThroughBranches, "was trained twice"},
                    std::pair{Bug::kRetryIsANewTurn, "counted as a new question"},
                    std::pair{Bug::kDeletedIsTrained, "deleted data reached a batch"},
                    std::pair{Bug::kOwedCaseForgotten, "never became a case"},
                    std::pair{Bug::kCaseOfAnotherTenant, "shown a case of another tenant"},
                    std::pair{Bug::kFailedKeyIsAKey, "a case has a key that is not its prompt's"},
                    std::pair{Bug::kPinnedIsSwapped, "a pinned version was swapped"}));

}  // namespace
}  // namespace tidemill::sim
