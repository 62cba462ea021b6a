// What goes into a batch: nothing too old, nothing used too often.
#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

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

class PoliciesOfReplay : public ReplayTest {
 protected:
  PoliciesOfReplay() {
    options_.policies = PolicyNames({"coder", "planner"});
    options_.versions.Published(PolicyId{1}, 20, 0);
    options_.versions.Published(PolicyId{2}, 21, 0);
  }
  static v1::Trajectory Drawn(uint64_t group, uint32_t member, const std::string& policy,
                              uint64_t version) {
    v1::Trajectory trajectory = Episode(group, member, version);
    trajectory.mutable_turns(0)->set_policy(policy);
    return trajectory;
  }
  void Finish(uint64_t group, const std::string& policy, uint64_t version) {
    Send(Drawn(group, 0, policy, version)), Send(Drawn(group, 1, policy, version));
    Settle(), Score(), Settle();
  }
  void AskOf(const std::string& policy, uint64_t step, uint32_t episodes = 2) {
    v1::BatchRequest request;
    request.set_step(step), request.set_episodes(episodes), request.set_reply_to("learner");
    request.set_policy(policy);
    EXPECT_TRUE(bus_.Publish(kBatchRequestsTopic, request.SerializeAsString()).ok());
  }
};

TEST_F(PoliciesOfReplay, ABatchIsOfOnePolicyHoweverMuchWaitsOfOthers) {
  Make();
  AskOf("coder", 0, 4), AskOf("planner", 0, 2);
  Finish(1, "coder", 20);
  EXPECT_TRUE(Batches().empty());
  Finish(2, "planner", 21);
  std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].policy(), "planner");
  EXPECT_EQ(Groups(batches[0]), (std::set<uint64_t>{2}));
  Finish(3, "coder", 20);
  batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].policy(), "coder");
  EXPECT_EQ(Groups(batches[0]), (std::set<uint64_t>{1, 3}));
  AskOf("planner", 0, 2), Settle();
  batches = Batches();
  ASSERT_EQ(batches.size(), 1u) << "a repetition is answered with the policy's own last batch";
  EXPECT_EQ(Groups(batches[0]), (std::set<uint64_t>{2}));
}

TEST_F(PoliciesOfReplay, AVersionOfOnePolicyInATurnOfAnotherIsRefused) {
  Make();
  Send(Drawn(1, 0, "coder", 21)), Settle();
  EXPECT_EQ(replay_->counters().refused, 1u);
  Send(Drawn(2, 0, "somebody", 20)), Settle();
  EXPECT_EQ(replay_->counters().refused, 2u);
  v1::Trajectory two = Drawn(3, 0, "coder", 20);
  *two.add_turns() = Drawn(3, 0, "planner", 21).turns(0);
  Send(two), Settle();
  EXPECT_EQ(replay_->counters().refused, 3u);
  EXPECT_EQ(bus_.Depth(kDeadTopic)->ready, 3u);
}

TEST_F(PoliciesOfReplay, AMemberThatAnotherPolicyDrewIsStale) {
  Make();
  Send(Drawn(1, 0, "coder", 20)), Send(Drawn(1, 1, "planner", 21));
  Settle(), Score(), Settle();
  EXPECT_EQ(replay_->counters().stale, 1u);
  AskOf("coder", 0), AskOf("planner", 0), Settle();
  EXPECT_TRUE(Batches().empty());
}

TEST_F(PoliciesOfReplay, AgeIsCountedInThePolicysOwnStepsAndByItsOwnBound) {
  options_.staleness_of[PolicyId{2}] = {.hard_max_steps = 1};
  Make();
  Finish(1, "coder", 20), Finish(2, "planner", 21);
  (void)Reports();
  AskOf("coder", 2), AskOf("planner", 2), Settle();
  const std::vector<v1::Batch> batches = Batches();
  ASSERT_EQ(batches.size(), 1u);
  EXPECT_EQ(batches[0].policy(), "coder") << "two steps are allowed, but for the planner";
  EXPECT_EQ(Reports().at(0).reason(), "too_old");
}

TEST_F(ReplayTest, WithMaskingOnlyTheOldTokensAreLeftOut) {
  options_.staleness.too_old = "mask";
  Make();
  Ask(0, 1), Step();
  for (uint32_t member : {0, 1}) {
    v1::Trajectory mixed = Episode(2, member, 1);
    v1::VersionRun& fresh = *mixed.mutable_turns(0)->add_versions();
    fresh.set_version(4), fresh.set_tokens(1);
    fresh.set_masked(true);  // it is not the worker's to say
    mixed.mutable_turns(0)->add_ids(3), mixed.mutable_turns(0)->add_logprobs(-1);
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
    options_.staleness = {
        .hard_max_steps = 100, .max_minutes = 1, .too_old = mask ? "mask" : "drop"};
    Make();
    const uint64_t group = mask ? 2 : 1;
    for (uint32_t member : {0, 1}) {
      v1::Trajectory trajectory = Episode(group, member, 1);
      trajectory.mutable_turns(0)->set_finished_ms(clock_.WallMs());
      v1::Turn& young = *trajectory.add_turns();
      young.add_ids(3), young.add_logprobs(-1);
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

TEST_F(ReplayTest, AGroupIsUsedAsOftenAsAllowedAndTheOldestFirst) {
  options_.max_uses = 2;
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
  options_.capacity = 2;
  options_.max_uses = 3;
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
  options_.capacity = 2;
  options_.max_uses = 100;
  options_.samples_per_insert = 1;
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
  options_.selection = "prioritized";
  options_.priority_exponent = 4;
  options_.max_uses = 1000;
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

}  // namespace
}  // namespace tidemill
