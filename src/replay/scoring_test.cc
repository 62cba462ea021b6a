// Verdicts that are given again when a scorer has changed.
#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

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

class ScoreWarnings final : public Journal {
 public:
  void Record(std::string_view kind, const Numbers&, const Words& words) override {
    if (kind == "warning") warnings.push_back(words.at("what"));
  }
  std::vector<std::string> warnings;
};

TEST_F(ReplayTest, TheFirstScorerThatFailsIsToldAtOnceThenOnlyWhenTheirNumberDoubles) {
  ScoreWarnings journal;
  options_.staleness.hard_max_steps = 100;
  replay_ = std::make_unique<ReplayLoop>(bus_, store_, clock_, journal, book_, options_);
  replay_->Attach(waker_);
  for (uint64_t group = 1; group <= 5; ++group) {
    Send(Episode(group, 0, 1)), Send(Episode(group, 1, 1));
    Settle(), Score(/*same=*/false, /*scored=*/false), Settle();
    if (group == 1) {
      ASSERT_EQ(journal.warnings.size(), 2u) << "of the first and of two";
    }
  }
  EXPECT_EQ(replay_->counters().unscored, 10u);
  ASSERT_EQ(journal.warnings.size(), 4u);
  EXPECT_EQ(journal.warnings[0].rfind("could not score an episode of task t", 0), 0u);
  EXPECT_EQ(journal.warnings[3].rfind("could not score 8 episodes so far", 0), 0u);
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

class ComparedTest : public ReplayTest {
 protected:
  ComparedTest() { options_.compared_with = 2; }
  static v1::Trajectory OfFour(uint32_t member) {
    v1::Trajectory trajectory = Episode(1, member, 1);
    trajectory.set_group_members(4);
    trajectory.set_submission("answer " + std::to_string(member));
    return trajectory;
  }
  // The peers of every member whose verdict is asked for.
  std::map<uint32_t, std::vector<std::string>> Asked() {
    std::map<uint32_t, std::vector<std::string>> asked;
    for (const Lease& lease : bus_.Receive(kScoreTopic, 100).value()) {
      v1::ScoreRequest request;
      EXPECT_TRUE(request.ParseFromString(lease.body));
      std::vector<std::string>& peers = asked[request.id().member()];
      for (const v1::ScoredPeer& peer : request.peers())
        peers.push_back(peer.submitted() ? peer.submission() : "none");
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return asked;
  }
  using Peers = std::map<uint32_t, std::vector<std::string>>;
};

TEST_F(ComparedTest, VerdictsWaitUntilTheGroupIsWholeAndCarryTheMembersAroundEach) {
  Make();
  for (const uint32_t member : {2, 0, 3}) Send(OfFour(member));
  Settle();
  EXPECT_EQ(bus_.Depth(kScoreTopic)->ready, 0u);
  v1::Trajectory last = OfFour(1);
  last.set_end(v1::EPISODE_END_MAX_TURNS);
  Send(last), Settle();
  EXPECT_EQ(Asked(), (Peers{{0, {"none", "answer 3"}},
                            {1, {"answer 2", "answer 0"}},
                            {2, {"answer 3", "none"}},
                            {3, {"answer 0", "answer 2"}}}));
}

TEST_F(ComparedTest, AMemberThatFailedBecauseOfUsEndsTheWaitAndIsNoPeer) {
  Make();
  for (const uint32_t member : {0, 1, 2}) Send(OfFour(member));
  v1::Trajectory last = OfFour(3);
  last.set_end(v1::EPISODE_END_GIVEN_UP), last.clear_turns();
  Send(last), Settle();
  EXPECT_EQ(Asked(), (Peers{{0, {"answer 1", "answer 2"}},
                            {1, {"answer 2", "answer 0"}},
                            {2, {"answer 0", "answer 1"}}}));
}

TEST_F(ComparedTest, AResumedGroupWaitsForTheMembersThatAreMissing) {
  std::vector<StoredSample> stored(3);
  for (uint32_t member = 0; member < 3; ++member) stored[member].trajectory = OfFour(member);
  Make(std::move(stored));
  Settle();
  EXPECT_EQ(bus_.Depth(kScoreTopic)->ready, 0u);
  Send(OfFour(3)), Settle();
  EXPECT_EQ(Asked().size(), 4u);
}

TEST_F(ReplayTest, AResumedGroupKeepsItsUsesItsStaleMembersAndIsScoredByTodaysScorers) {
  std::vector<StoredSample> stored = StoredGroup(5, 3);
  for (StoredSample& sample : stored) {
    v1::RewardPart& part = *sample.verdict->add_parts();
    part.set_scorer("judge"), part.set_scorer_version(1);
    sample.uses = 1;
  }
  stored[2].stale = true;
  options_.versions = VersionsTo(1);
  options_.max_uses = 2;
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
