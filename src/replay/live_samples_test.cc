// Trajectories of sessions on their way into a batch.
#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

class ReplayLiveTest : public ReplayTest {
 protected:
  static v1::Sample Live(uint64_t session, uint64_t version, double reward = 1) {
    v1::Sample sample;
    v1::Trajectory& trajectory = *sample.mutable_trajectory();
    trajectory = Episode(session, 0, version);
    trajectory.mutable_id()->set_task("session-" + std::to_string(session));
    trajectory.set_purpose(v1::PURPOSE_LIVE);
    trajectory.set_group_members(1);
    v1::Verdict& verdict = *sample.mutable_verdict();
    *verdict.mutable_id() = trajectory.id();
    verdict.set_request_id("live");
    verdict.set_scored(true);
    verdict.set_reward(reward);
    sample.mutable_live()->add_turn_scores(reward);
    return sample;
  }
  void SendLive(const v1::Sample& sample) {
    v1::LiveEvent event;
    *event.mutable_sample() = sample;
    Tell(event);
  }
  void Tell(const v1::LiveEvent& event) {
    EXPECT_TRUE(bus_.Publish(kLiveEventsTopic, event.SerializeAsString()).ok());
  }
  void AskBoth(uint64_t step, uint64_t version, uint32_t tasks, uint32_t live) {
    Publish(version, step);
    v1::BatchRequest request;
    request.set_step(step), request.set_episodes(tasks), request.set_live_episodes(live);
    request.set_reply_to("learner");
    request.set_version(version);
    EXPECT_TRUE(bus_.Publish(kBatchRequestsTopic, request.SerializeAsString()).ok());
  }
};

TEST_F(ReplayLiveTest, ABatchOfSessionsAloneIsMadeWhenThereAreEnough) {
  Make();
  AskBoth(0, 1, 0, 2);
  SendLive(Live(1, 1));
  Settle();
  EXPECT_TRUE(Batches().empty());
  SendLive(Live(2, 1));
  SendLive(Live(3, 1));
  Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(Groups(batches[0]), (std::set<uint64_t>{1, 2}));
  EXPECT_EQ(replay_->counters().live_ready, 1u);
}

TEST_F(ReplayLiveTest, ABatchMixesSessionsAndGroupsAndWaitsForBoth) {
  Make();
  AskBoth(0, 1, 2, 1);
  SendLive(Live(1, 1));
  Settle();
  EXPECT_TRUE(Batches().empty()) << "no group yet";
  Finish(1);  // a group of the same number as the session
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  ASSERT_EQ(batches[0].samples_size(), 3);
  EXPECT_EQ(batches[0].samples(2).trajectory().purpose(), v1::PURPOSE_LIVE);
}

TEST_F(ReplayLiveTest, ASessionIsUsedOnceHoweverOftenItIsSent) {
  Make();
  SendLive(Live(1, 1)), SendLive(Live(1, 1));
  AskBoth(0, 1, 0, 1);
  Settle();
  EXPECT_EQ(Batches().size(), 1u);
  SendLive(Live(1, 1));
  AskBoth(1, 2, 0, 1);
  Settle();
  EXPECT_TRUE(Batches().empty());
}

TEST_F(ReplayLiveTest, WhatIsTooOldIsDroppedAndRecorded) {
  Make();
  Publish(1, 0), Step();
  SendLive(Live(1, 1));
  AskBoth(3, 4, 0, 1);  // two steps are allowed
  Settle();
  EXPECT_TRUE(Batches().empty());
  EXPECT_EQ(replay_->counters().live_too_old, 1u);
}

TEST_F(ReplayLiveTest, ARevisedVerdictReachesTheBatch) {
  Make();
  SendLive(Live(1, 1, 1));
  v1::LiveEvent event;
  *event.mutable_revised()->mutable_verdict() = Live(1, 1, -1).verdict();
  *event.mutable_revised()->mutable_live() = Live(1, 1, -1).live();
  Tell(event);
  AskBoth(0, 1, 0, 1);
  Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].samples(0).verdict().reward(), -1);
}

TEST_F(ReplayLiveTest, NothingOfADeletedSessionIsUsedWhateverComesOfItLater) {
  Make();
  SendLive(Live(1, 1));
  v1::LiveEvent event;
  event.mutable_deleted()->set_session(1);
  Tell(event);
  SendLive(Live(1, 1));
  AskBoth(0, 1, 0, 1);
  Settle();
  EXPECT_TRUE(Batches().empty());
  EXPECT_EQ(replay_->counters().live_ready, 0u);
}

TEST_F(ReplayLiveTest, AVersionThatWasNeverPublishedOrAMissingScoreIsADeadLetter) {
  Make();
  Publish(1, 0), Step();
  SendLive(Live(1, 99));
  v1::Sample unscored = Live(2, 1);
  unscored.mutable_live()->clear_turn_scores();
  SendLive(unscored);
  v1::Sample empty = Live(3, 1);
  empty.mutable_trajectory()->clear_turns();
  SendLive(empty);
  Tell(v1::LiveEvent());
  Settle();
  EXPECT_EQ(replay_->counters().refused, 4u);
  EXPECT_EQ(replay_->counters().live_ready, 0u);
}

}  // namespace
}  // namespace tidemill
