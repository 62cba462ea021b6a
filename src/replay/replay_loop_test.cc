// From a trajectory to a scored group, and what a resume finds again.
#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

TEST_F(ReplayTest, AcknowledgesATrajectoryOnlyWhenItIsDurable) {
  Make();
  Send(Episode(1, 0, 1));
  Step();
  EXPECT_EQ(bus_.Depth(kTrajectoriesTopic)->leased, 1u);
  store_.Answer();
  Step();
  EXPECT_EQ(bus_.Depth(kTrajectoriesTopic)->leased, 0u);
  EXPECT_EQ(bus_.Depth(kScoreTopic)->ready, 1u);
}

TEST_F(ReplayTest, AWholeScoredGroupBecomesABatch) {
  Make();
  Send(Episode(1, 0, 1)), Send(Episode(1, 1, 1));
  Settle(), Score(), Settle();
  ASSERT_EQ(Reports().size(), 1u);
  EXPECT_TRUE(Batches().empty());
  Ask(0, 1);
  Settle();
  std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].samples_size(), 2);
  Ask(0, 1);  // the bus repeats the request: the same groups, not others
  Settle();
  batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].samples_size(), 2);
}

TEST_F(ReplayTest, ASecondCopyOfATrajectoryIsDropped) {
  Make();
  Send(Episode(1, 0, 1)), Send(Episode(1, 0, 1));
  Settle();
  Send(Episode(1, 0, 1));
  Settle();
  EXPECT_EQ(replay_->counters().stored, 1u);
  EXPECT_EQ(replay_->counters().duplicates, 2u);
}

TEST_F(ReplayTest, AGroupWithoutADifferenceIsDroppedAndItsCreditReturned) {
  Make();
  Send(Episode(1, 0, 1)), Send(Episode(1, 1, 1));
  Settle(), Score(true), Settle();
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].dropped(), 2u);
  EXPECT_FALSE(reports[0].reissue());
  EXPECT_EQ(store_.fates.at(0), "zero_variance");
}

TEST_F(ReplayTest, AGroupInWhichTheModelWroteNothingIsDroppedForThatReason) {
  Make();
  for (const uint32_t member : {0u, 1u}) {
    v1::Trajectory silent = Episode(1, member, 1);
    silent.clear_turns(), silent.clear_prompt_ids();
    Send(silent);
  }
  Settle(), Score(), Settle();
  ASSERT_EQ(Reports().size(), 1u);
  EXPECT_EQ(store_.fates.at(0), "untrainable") << "although their rewards differ";
  EXPECT_EQ(replay_->counters().untrainable, 2u);
  // One member that wrote something is enough.
  v1::Trajectory silent = Episode(2, 0, 1);
  silent.clear_turns(), silent.clear_prompt_ids();
  Send(silent), Send(Episode(2, 1, 1));
  Settle(), Score(), Settle();
  Ask(0, 1);
  Settle();
  EXPECT_EQ(Batches().size(), 1u);
}

TEST_F(ReplayTest, AnAgentsLogIsStoredAndGoesIntoNoBatch) {
  Make();
  for (const uint32_t member : {0u, 1u}) {
    v1::Trajectory trajectory = Episode(1, member, 1);
    trajectory.mutable_log()->set_text("what it printed");
    Send(trajectory);
  }
  Step();
  ASSERT_EQ(store_.waiting.size(), 2u);
  for (const auto& [op, tag] : store_.waiting) {
    EXPECT_EQ(std::get<PutTrajectory>(op).trajectory.log().text(), "what it printed");
  }
  Settle(), Score(), Settle();
  Ask(0, 1);
  Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  for (const v1::Sample& sample : batches[0].samples()) {
    EXPECT_FALSE(sample.trajectory().has_log());
  }
}

TEST_F(ReplayTest, AVerdictWeCouldNotGiveMakesTheEpisodeStaleAndNeverAZero) {
  Make();
  Send(Episode(1, 0, 1)), Send(Episode(1, 1, 1));
  Settle(), Score(false, false), Settle();
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].dropped(), 2u);
  EXPECT_TRUE(reports[0].reissue()) << "the task is attempted again";
  EXPECT_EQ(store_.fates.at(0), "stale");
}

TEST_F(ReplayTest, ALostVerdictIsAskedForAgain) {
  Make();
  Send(Episode(1, 0, 1));
  Settle();
  const std::vector<Lease> lost = bus_.Receive(kScoreTopic, 10).value();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_TRUE(bus_.Ack(lost[0]).ok());
  clock_.Advance(std::chrono::minutes(11));
  Step();
  EXPECT_EQ(bus_.Depth(kScoreTopic)->ready, 1u);
}

TEST_F(ReplayTest, WhatWasStoredBeforeAResumeIsThereAgain) {
  options_.versions = VersionsTo(1);
  Make(StoredGroup(5, 2));
  Ask(0, 1);
  Settle();
  ASSERT_EQ(Batches().size(), 1u);
}

TEST_F(ReplayTest, AReportAfterAResumeIsNewerThanThoseOfTheLedger) {
  std::vector<StoredSample> stored = StoredGroup(5, 2);
  for (StoredSample& sample : stored) sample.revision = 7;
  options_.versions = VersionsTo(1);
  Make(std::move(stored));
  Settle();
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].revision(), 8u);
}

}  // namespace
}  // namespace tidemill
