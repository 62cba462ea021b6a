// Groups whose episodes have several roles: each policy learns from the turns of its own, and no
// other's.
#include <gmock/gmock.h>

#include "replay/role_sample.h"
#include "testing/replay_fixture.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kCoderVersion = 1, kPlannerVersion = 2;

class TeamReplayTest : public ReplayTest {
 protected:
  TeamReplayTest() {
    options_.policies = PolicyNames({"coder", "planner"});
    options_.roles = {{"code", PolicyId{1}}, {"plan", PolicyId{2}}};
    options_.versions = PolicyVersions();
    options_.versions.Published(PolicyId{1}, kCoderVersion, 0);
    options_.versions.Published(PolicyId{2}, kPlannerVersion, 0);
  }
  static void AddTurn(const std::string& role, uint32_t token, v1::Trajectory& trajectory,
                      bool branch) {
    v1::Turn& turn = *trajectory.add_turns();
    turn.set_role(role);
    turn.set_policy(role == "plan" ? "planner" : "coder");
    turn.add_ids(token);
    turn.add_logprobs(-0.5f);
    if (branch) turn.add_prompt_ids(40 + token);
    v1::VersionRun& run = *turn.add_versions();
    run.set_version(role == "plan" ? kPlannerVersion : kCoderVersion), run.set_tokens(1);
  }
  // The planner, then the coder, then each once more.
  static v1::Trajectory OfTeam(uint64_t group, uint32_t member, bool coder = true) {
    v1::Trajectory trajectory = Episode(group, member, 1);
    trajectory.clear_turns();
    AddTurn("plan", 11, trajectory, false);
    if (coder) AddTurn("code", 21, trajectory, true);
    AddTurn("plan", 12, trajectory, false);
    if (coder) AddTurn("code", 22, trajectory, false);
    return trajectory;
  }
  void FinishTeam(uint64_t group, bool coders = true) {
    Send(OfTeam(group, 0, coders)), Send(OfTeam(group, 1, coders));
    Settle(), Score(), Settle();
  }
  v1::Batch BatchOf(const std::string& policy, uint64_t step) {
    v1::BatchRequest request;
    request.set_step(step), request.set_episodes(2), request.set_reply_to("learner");
    request.set_policy(policy);
    EXPECT_TRUE(bus_.Publish(kBatchRequestsTopic, request.SerializeAsString()).ok());
    Step();
    const std::vector<v1::Batch> batches = Batches();
    return batches.empty() ? v1::Batch() : batches[0];
  }
  static std::map<std::string, bool> Dropped(const v1::GroupReport& report) {
    std::map<std::string, bool> dropped;
    for (const v1::PolicyCredit& credit : report.credits()) {
      dropped[credit.policy()] = credit.dropped() > 0;
    }
    return dropped;
  }
};

TEST_F(TeamReplayTest, EachPolicyGetsTheTurnsOfItsRoleBehindWhatTheRoleWasShown) {
  Make();
  FinishTeam(5);
  const v1::Batch of_coder = BatchOf("coder", 0);
  ASSERT_EQ(of_coder.samples_size(), 2);
  const v1::Sample& sample = of_coder.samples(0);
  EXPECT_EQ(sample.role(), "code");
  ASSERT_EQ(sample.trajectory().turns_size(), 2);
  EXPECT_EQ(sample.trajectory().turns(0).ids(0), 21u);
  EXPECT_EQ(sample.trajectory().turns(1).ids(0), 22u);
  EXPECT_EQ(sample.trajectory().prompt_ids(0), 61u) << "of its first turn";
  EXPECT_EQ(sample.trajectory().turns(0).prompt_ids_size(), 0);
  const v1::Batch of_planner = BatchOf("planner", 0);
  ASSERT_EQ(of_planner.samples_size(), 2) << "another policy's use takes nothing away";
  ASSERT_EQ(of_planner.samples(1).trajectory().turns_size(), 2);
  EXPECT_EQ(of_planner.samples(1).trajectory().turns(1).ids(0), 12u);
  EXPECT_EQ(of_planner.samples(1).trajectory().prompt_ids(0), 1u);
  EXPECT_EQ(BatchOf("planner", 1).samples_size(), 0) << "each may use it once";
}

TEST_F(TeamReplayTest, ARoleWithoutATurnHasNoSampleAndItsPolicyGetsItsCreditBack) {
  Make();
  FinishTeam(5, /*coders=*/false);
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].accepted(), 2u);
  ASSERT_EQ(reports[0].credits_size(), 1) << "the coder has no turn";
  EXPECT_EQ(reports[0].credits(0).policy(), "planner");
  EXPECT_EQ(reports[0].credits(0).accepted(), 2u);
  EXPECT_EQ(BatchOf("coder", 0).samples_size(), 0);
  EXPECT_EQ(BatchOf("planner", 0).samples_size(), 2);
}

TEST_F(TeamReplayTest, EqualRewardsOfOneRoleDropItsPartAlone) {
  Make();
  Send(OfTeam(5, 0)), Send(OfTeam(5, 1));
  Settle();
  for (const Lease& lease : bus_.Receive(kScoreTopic, 100).value()) {
    v1::ScoreRequest request;
    ASSERT_TRUE(request.ParseFromString(lease.body));
    EXPECT_THAT(request.turn_roles(), testing::ElementsAre("plan", "code", "plan", "code"));
    v1::Verdict verdict;
    *verdict.mutable_id() = request.id();
    verdict.set_request_id(request.request_id()), verdict.set_token(request.token());
    verdict.set_scored(true), verdict.set_reward(0.5);
    v1::RoleReward& own = *verdict.add_by_role();
    own.set_role("plan"), own.set_reward(request.id().member());
    EXPECT_TRUE(bus_.PublishReply(request.reply_to(), verdict.SerializeAsString()).ok());
    EXPECT_TRUE(bus_.Ack(lease).ok());
  }
  Settle();
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(Dropped(reports[0]),
            (std::map<std::string, bool>{{"coder", true}, {"planner", false}}));
  EXPECT_TRUE(store_.fates.empty()) << "the episodes are still there for the planner";
  const v1::Batch batch = BatchOf("planner", 0);
  ASSERT_EQ(batch.samples_size(), 2);
  EXPECT_EQ(batch.samples(1).verdict().reward(), 1) << "the role's own";
}

TEST_F(TeamReplayTest, ATurnThatAnotherPolicyDrewThanItsRoleIsRefused) {
  Make();
  v1::Trajectory wrong = OfTeam(5, 0);
  wrong.mutable_turns(1)->set_policy("planner");
  wrong.mutable_turns(1)->mutable_versions(0)->set_version(kPlannerVersion);
  Send(wrong);
  Settle();
  EXPECT_EQ(replay_->counters().refused, 1u);
  EXPECT_THAT(CheckRoles(wrong, options_.policies, options_.roles).message(),
              HasSubstr("role \"code\" drawn by the policy planner, not coder"));
  v1::Trajectory mixed = OfTeam(5, 0);
  mixed.mutable_turns(1)->clear_prompt_ids();
  EXPECT_THAT(CheckRoles(mixed, options_.policies, options_.roles).message(),
              HasSubstr("first turn of the role \"code\" goes on from another's"));
  v1::Trajectory stranger = OfTeam(5, 0);
  stranger.mutable_turns(0)->set_role("spy");
  EXPECT_THAT(CheckRoles(stranger, options_.policies, options_.roles).message(),
              HasSubstr("no role \"spy\""));
}

TEST_F(TeamReplayTest, WhatOnePolicyFindsTooOldAnotherMayStillUse) {
  options_.staleness_of[PolicyId{2}] = {.hard_max_steps = 0};
  options_.staleness_of[PolicyId{1}] = {.hard_max_steps = 9};
  Make();
  FinishTeam(5);
  Reports();
  EXPECT_EQ(BatchOf("planner", 1).samples_size(), 0);
  const std::vector<v1::GroupReport> reports = Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].accepted(), 2u) << "the group stays";
  EXPECT_FALSE(reports[0].reissue());
  EXPECT_EQ(Dropped(reports[0]),
            (std::map<std::string, bool>{{"coder", false}, {"planner", true}}));
  EXPECT_EQ(BatchOf("coder", 3).samples_size(), 2);
}

TEST_F(TeamReplayTest, AResumedRunUsesWhatIsLeftForEachPolicy) {
  std::vector<StoredSample> stored(2);
  for (uint32_t member = 0; member < 2; ++member) {
    stored[member].trajectory = OfTeam(5, member);
    v1::Verdict& verdict = stored[member].verdict.emplace();
    *verdict.mutable_id() = stored[member].trajectory.id();
    verdict.set_request_id("asked before");
    verdict.set_scored(true), verdict.set_reward(member);
    stored[member].uses = 1;
    stored[member].uses_of = {{"planner", 1}};
  }
  Make(std::move(stored));
  Settle();
  EXPECT_EQ(BatchOf("planner", 1).samples_size(), 0) << "used before";
  EXPECT_EQ(BatchOf("coder", 0).samples_size(), 2);
  EXPECT_EQ(replay_->counters().ready_episodes, 0u);
}

TEST_F(TeamReplayTest, AFrozenRoleHasNoPart) {
  options_.frozen = {PolicyId{1}};
  Make();
  FinishTeam(5);
  EXPECT_EQ(BatchOf("coder", 0).samples_size(), 0);
  EXPECT_EQ(BatchOf("planner", 0).samples_size(), 2);
  EXPECT_EQ(replay_->counters().ready_episodes, 0u);
}

}  // namespace
}  // namespace tidemill
