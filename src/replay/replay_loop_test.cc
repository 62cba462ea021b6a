#include "replay/replay_loop.h"

#include <gtest/gtest.h>

#include <set>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"

namespace tidemill {
namespace {

class FakeStore final : public StorePort {
 public:
  void Submit(StoreOp op, uint64_t tag) override {
    if (auto* fate = std::get_if<PutFate>(&op)) fates[fate->id.member()] = fate->fate;
    waiting.emplace_back(std::move(op), tag);
  }
  void Answer() {
    for (auto& [op, tag] : std::exchange(waiting, {})) {
      Status status;
      if (auto* put = std::get_if<PutTrajectory>(&op)) {
        const v1::TrajectoryId& id = put->trajectory.id();
        if (!stored.insert({id.group(), id.member()}).second) status = Exists("there");
      }
      events_.Post({tag, status, 0});
    }
  }
  Mailbox<StoreDone>& events() override { return events_; }
  std::vector<std::pair<StoreOp, uint64_t>> waiting;
  std::set<std::pair<uint64_t, uint32_t>> stored;
  std::map<uint32_t, std::string> fates;

 private:
  Mailbox<StoreDone> events_{10000};
};

class ReplayTest : public testing::Test {
 protected:
  ReplayTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {.lease = std::chrono::seconds(30)}).ok());
    EXPECT_TRUE(bus_.Open("learner", {}).ok());
    tasks_.resize(1);
    tasks_[0].set_id("t");
    tasks_[0].mutable_grading()->add_cases()->set_input("1");
    book_.Add(tasks_);
    options_.staleness = {2, 0, false};
  }
  void Make(std::vector<StoredSample> stored = {}) {
    replay_ = std::make_unique<ReplayLoop>(bus_, store_, clock_, journal_, book_, options_,
                                           std::move(stored));
    replay_->Attach(waker_);
  }
  void Step() { replay_->Step(clock_.Now()); }
  void Settle() {
    for (int i = 0; i < 4; ++i) Step(), store_.Answer();
    Step();
  }
  static v1::Trajectory Episode(uint64_t group, uint32_t member, uint64_t version) {
    v1::Trajectory trajectory;
    v1::TrajectoryId& id = *trajectory.mutable_id();
    id.set_task("t"), id.set_group(group), id.set_member(member), id.set_attempt(1);
    trajectory.set_purpose(v1::PURPOSE_TRAIN);
    trajectory.set_group_members(2);
    trajectory.set_end(v1::EPISODE_END_SUBMITTED);
    v1::Turn& turn = *trajectory.add_turns();
    turn.add_ids(3);
    v1::VersionRun& run = *turn.add_versions();
    run.set_version(version), run.set_tokens(1);
    return trajectory;
  }
  void Send(const v1::Trajectory& trajectory) {
    EXPECT_TRUE(bus_.Publish(kTrajectoriesTopic, trajectory.SerializeAsString()).ok());
  }
  // Answers every score request; the reward of a member is its number unless `same`.
  void Score(bool same = false, bool scored = true) {
    const std::vector<Lease> leases = bus_.Receive(kScoreTopic, 100).value();
    for (const Lease& lease : leases) {
      v1::ScoreRequest request;
      ASSERT_TRUE(request.ParseFromString(lease.body));
      v1::Verdict verdict;
      *verdict.mutable_id() = request.id();
      verdict.set_request_id(request.request_id());
      verdict.set_scored(scored);
      verdict.set_reward(same ? 1 : reward_scale_ * request.id().member());
      v1::RewardPart& part = *verdict.add_parts();
      part.set_scorer("judge"), part.set_scorer_version(scorer_version_);
      EXPECT_TRUE(bus_.PublishReply(request.reply_to(), verdict.SerializeAsString()).ok());
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
  }
  // A whole group, scored; the reports are left on the bus.
  void Finish(uint64_t group, uint64_t version = 1) {
    Send(Episode(group, 0, version)), Send(Episode(group, 1, version));
    Settle(), Score(), Settle();
  }
  static std::set<uint64_t> Groups(const v1::Batch& batch) {
    std::set<uint64_t> groups;
    for (const v1::Sample& sample : batch.samples())
      groups.insert(sample.trajectory().id().group());
    return groups;
  }
  void Ask(uint64_t step, uint64_t version, uint32_t episodes = 2) {
    v1::BatchRequest request;
    request.set_step(step), request.set_episodes(episodes), request.set_reply_to("learner");
    request.set_version(version), request.set_version_step(step);
    EXPECT_TRUE(bus_.Publish(kBatchRequestsTopic, request.SerializeAsString()).ok());
  }
  std::vector<v1::Batch> Batches() {
    std::vector<v1::Batch> batches;
    const std::vector<Lease> leases = bus_.Receive("learner", 10).value();
    for (const Lease& lease : leases) {
      EXPECT_TRUE(batches.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return batches;
  }
  std::vector<v1::GroupReport> Reports() {
    std::vector<v1::GroupReport> reports;
    const std::vector<Lease> leases = bus_.Receive(kDispatchTopic, 100).value();
    for (const Lease& lease : leases) {
      v1::DispatchEvent event;
      EXPECT_TRUE(event.ParseFromString(lease.body));
      reports.push_back(event.group());
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return reports;
  }

  struct NoWaker final : Waker {
    void Wake() override {}
  } waker_;
  VirtualClock clock_;
  MemoryBus bus_{clock_};
  FakeStore store_;
  NullJournal journal_;
  std::vector<v1::Task> tasks_;
  TaskBook book_;
  ReplayOptions options_;
  double reward_scale_ = 1;
  uint32_t scorer_version_ = 1;
  std::unique_ptr<ReplayLoop> replay_;
};

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

TEST_F(ReplayTest, ATokenOverTheBoundNeverReachesABatch) {
  Make();
  Ask(0, 1);  // version 1 belongs to step 0
  Step();
  Send(Episode(1, 0, 1)), Send(Episode(1, 1, 1));
  Settle(), Score(), Settle();
  (void)Batches();
  Ask(3, 4);  // three steps on; two are allowed
  Send(Episode(2, 0, 1)), Send(Episode(2, 1, 1));
  Settle(), Score(), Settle();
  EXPECT_TRUE(Batches().empty());
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[2].reason(), "too_old");
  EXPECT_TRUE(reports[2].reissue());
}

TEST_F(ReplayTest, WithMaskingOnlyTheOldTokensAreLeftOut) {
  options_.staleness.mask = true;
  Make();
  Ask(0, 1), Step();
  for (uint32_t member : {0, 1}) {
    v1::Trajectory mixed = Episode(2, member, 1);
    v1::VersionRun& fresh = *mixed.mutable_turns(0)->add_versions();
    fresh.set_version(4), fresh.set_tokens(1);
    mixed.mutable_turns(0)->add_ids(3);
    Send(mixed);
  }
  Ask(3, 4);
  Settle(), Score(), Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  const v1::Turn& turn = batches[0].samples(0).trajectory().turns(0);
  EXPECT_TRUE(turn.versions(0).masked());
  EXPECT_FALSE(turn.versions(1).masked());
  EXPECT_EQ(batches[0].samples(0).masked_tokens(), 1u);
}

TEST_F(ReplayTest, TokensDrawnTooLongAgoAreDroppedOrMasked) {
  for (const bool mask : {false, true}) {
    options_.staleness = {100, /*max_minutes=*/1, mask};
    Make();
    const uint64_t group = mask ? 2 : 1;
    for (uint32_t member : {0, 1}) {
      v1::Trajectory trajectory = Episode(group, member, 1);
      trajectory.mutable_turns(0)->set_finished_ms(clock_.WallMs());
      v1::Turn& young = *trajectory.add_turns();
      young.add_ids(3);
      v1::VersionRun& run = *young.add_versions();
      run.set_version(1), run.set_tokens(1);
      young.set_finished_ms(clock_.WallMs() + 60'000);
      Send(trajectory);
    }
    Settle(), Score(), Settle();
    (void)Reports();
    clock_.Advance(std::chrono::seconds(90));
    Ask(mask ? 1 : 0, 1), Settle();
    const std::vector<v1::Batch> batches = Batches();
    if (!mask) {
      EXPECT_TRUE(batches.empty());
      EXPECT_EQ(Reports().at(0).reason(), "too_old");
      EXPECT_EQ(replay_->counters().too_old, 2u);
      continue;
    }
    ASSERT_EQ(batches.size(), 1u);
    const v1::Trajectory& trajectory = batches[0].samples(0).trajectory();
    EXPECT_TRUE(trajectory.turns(0).versions(0).masked());
    EXPECT_FALSE(trajectory.turns(1).versions(0).masked());
    EXPECT_EQ(replay_->counters().masked_tokens, 2u);
  }
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
  v1::Verdict verdict;
  verdict.set_scored(true);
  std::vector<StoredSample> stored;
  for (uint32_t member : {0, 1}) {
    verdict.set_reward(member);
    stored.push_back({Episode(5, member, 1), verdict, 0, false});
  }
  options_.versions = {{1, 0}};
  Make(std::move(stored));
  Ask(0, 1);
  Settle();
  ASSERT_EQ(Batches().size(), 1u);
}

TEST_F(ReplayTest, AReportAfterAResumeIsNewerThanThoseOfTheLedger) {
  v1::Verdict verdict;
  verdict.set_scored(true);
  std::vector<StoredSample> stored;
  for (uint32_t member : {0, 1}) {
    verdict.set_reward(member);
    stored.push_back({Episode(5, member, 1), verdict, 0, false, 7});
  }
  options_.versions = {{1, 0}};
  Make(std::move(stored));
  Settle();
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].revision(), 8u);
}

TEST_F(ReplayTest, AGroupIsUsedAsOftenAsAllowedAndTheOldestFirst) {
  options_.buffer.max_uses = 2;
  Make();
  Finish(1), Finish(2);
  std::vector<std::set<uint64_t>> used;
  for (uint64_t step = 0; step < 4; ++step) {
    Ask(step, 1), Settle();
    for (const v1::Batch& batch : Batches()) {
      used.push_back(Groups(batch));
      EXPECT_EQ(batch.samples(0).uses(), (used.size() - 1) % 2);
    }
  }
  const std::vector<std::set<uint64_t>> expected = {{1}, {1}, {2}, {2}};
  EXPECT_EQ(used, expected);
}

TEST_F(ReplayTest, ANewGroupEvictsTheOneUsedMostAndItsCreditReturns) {
  options_.buffer.capacity = 2;
  options_.buffer.max_uses = 3;
  Make();
  Finish(1), Finish(2);
  Ask(0, 1), Settle();
  ASSERT_EQ(Batches().size(), 1u);
  (void)Reports();
  Finish(3);
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].accepted(), 2u);
  EXPECT_EQ(reports[1].group(), 1u);
  EXPECT_EQ(reports[1].dropped(), 2u);
  EXPECT_EQ(reports[1].uses(), 1u);
  EXPECT_FALSE(reports[1].reissue());
  EXPECT_EQ(store_.fates.at(0), "evicted");
  EXPECT_EQ(replay_->counters().evicted, 2u);
}

TEST_F(ReplayTest, NoMoreIsSampledThanInsertsPaidForAndAnEvictionDoesNotBlockIt) {
  options_.buffer.capacity = 2;
  options_.buffer.max_uses = 100;
  options_.buffer.samples_per_insert = 1;
  options_.staleness.hard_max_steps = 100;
  Make();
  Finish(1);
  Ask(0, 1), Settle();
  EXPECT_EQ(Batches().size(), 1u);
  Ask(1, 1), Settle();
  EXPECT_TRUE(Batches().empty()) << "the one insert paid for one use";
  Finish(2), Finish(3), Finish(4);  // two of them have to go
  EXPECT_EQ(Batches().size(), 1u);
  Ask(2, 1), Settle();
  EXPECT_EQ(Batches().size(), 1u);
}

TEST_F(ReplayTest, PrioritizedSelectionPrefersGroupsWhoseRewardsVaryMore) {
  options_.buffer.selection = "prioritized";
  options_.buffer.priority_exponent = 4;
  options_.buffer.max_uses = 1000;
  options_.staleness.hard_max_steps = 1000;
  Make();
  Finish(1);
  reward_scale_ = 5;
  Finish(2);
  int second = 0;
  for (uint64_t step = 0; step < 50; ++step) {
    Ask(step, 1), Settle();
    const std::vector<v1::Batch> batches = Batches();
    ASSERT_EQ(batches.size(), 1u);
    second += static_cast<int>(Groups(batches[0]).count(2));
  }
  EXPECT_GT(second, 45);
}

TEST_F(ReplayTest, WhenAScorersVersionRisesTheGroupsThatVaryMostAreScoredAgainInPlace) {
  options_.rescore_groups = 1;
  options_.staleness.hard_max_steps = 100;
  Make();
  Finish(1);
  reward_scale_ = 3;
  Finish(2);
  EXPECT_EQ(bus_.Depth(kScoreTopic)->ready, 0u);
  scorer_version_ = 2;
  reward_scale_ = 1;
  Finish(3);
  ASSERT_EQ(bus_.Depth(kScoreTopic)->ready, 2u) << "the one group that varies most";
  reward_scale_ = 7;
  Score(), Settle();
  EXPECT_EQ(replay_->counters().rescored, 2u);
  Ask(0, 1, 6), Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].samples(1).verdict().reward(), 1);
  EXPECT_EQ(batches[0].samples(3).verdict().reward(), 7);
  EXPECT_EQ(batches[0].samples(3).verdict().parts(0).scorer_version(), 2u);
}

TEST_F(ReplayTest, AScorerThatCannotBeReachedOrIsOlderLeavesTheVerdictAsItWas) {
  options_.staleness.hard_max_steps = 100;
  Make();
  Finish(1);
  scorer_version_ = 2;
  Finish(2);
  ASSERT_EQ(bus_.Depth(kScoreTopic)->ready, 2u);
  Score(false, /*scored=*/false), Settle();
  EXPECT_EQ(replay_->counters().rescore_failed, 2u);
  EXPECT_EQ(replay_->counters().stale, 0u);
  Ask(0, 1, 4), Settle();
  EXPECT_EQ(Batches().at(0).samples(1).verdict().reward(), 1);
}

TEST_F(ReplayTest, AGroupWithoutADifferenceAfterScoringAgainIsDropped) {
  options_.staleness.hard_max_steps = 100;
  Make();
  Finish(1);
  scorer_version_ = 2;
  Finish(2);
  (void)Reports();
  Score(/*same=*/true), Settle();
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].group(), 1u);
  EXPECT_EQ(reports[0].reason(), "zero_variance");
}

TEST_F(ReplayTest, AResumedGroupKeepsItsUsesItsStaleMembersAndIsScoredByTodaysScorers) {
  v1::Verdict verdict;
  verdict.set_scored(true);
  v1::RewardPart& part = *verdict.add_parts();
  part.set_scorer("judge"), part.set_scorer_version(1);
  std::vector<StoredSample> stored;
  for (uint32_t member : {0, 1, 2}) {
    verdict.set_reward(member);
    v1::Trajectory trajectory = Episode(5, member, 1);
    trajectory.set_group_members(3);
    stored.push_back({trajectory, verdict, 1, /*stale=*/member == 2});
  }
  options_.versions = {{1, 0}};
  options_.buffer.max_uses = 2;
  options_.scorer_versions = {{"judge", 2}};
  Make(std::move(stored));
  Settle();
  EXPECT_EQ(bus_.Depth(kScoreTopic)->ready, 2u) << "the older scorer's verdicts";
  Ask(1, 1, 3), Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].samples_size(), 2) << "the stale member stays out, the group stands for 3";
  EXPECT_EQ(batches[0].samples(0).uses(), 1u);
  Ask(2, 1, 3), Settle();
  EXPECT_TRUE(Batches().empty()) << "it was used twice";
}

}  // namespace
}  // namespace tidemill
