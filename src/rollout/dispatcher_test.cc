#include "rollout/dispatcher.h"

#include <gtest/gtest.h>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "core/topics.h"
#include "testing/bus_test_kit.h"

namespace tidemill {
namespace {

class FakeStore final : public StorePort {
 public:
  void Submit(StoreOp op, uint64_t tag) override {
    ops.push_back(std::move(op));
    tags.push_back(tag);
  }
  void Answer() {
    for (uint64_t tag : std::exchange(tags, {})) events_.Post({tag, Ok(), 0});
  }
  Mailbox<StoreDone>& events() override { return events_; }
  std::vector<StoreOp> ops;
  std::vector<uint64_t> tags;

 private:
  Mailbox<StoreDone> events_{10000};
};

std::vector<v1::Task> Tasks(int count, const std::string& prefix) {
  std::vector<v1::Task> tasks(count);
  for (int i = 0; i < count; ++i) {
    tasks[i].set_id(prefix + std::to_string(i));
    tasks[i].mutable_grading()->add_cases()->set_input("secret");
  }
  return tasks;
}

class EvalJournal final : public Journal {
 public:
  void Record(std::string_view kind, const Numbers& numbers, const Words&) override {
    if (kind == "eval") evals.push_back(numbers);
  }
  std::vector<Numbers> evals;
};

class DispatcherTest : public testing::Test {
 protected:
  DispatcherTest() {
    EXPECT_TRUE(OpenStandardTopics(bus_, {}).ok());
    options_.trained = {
        {.gate = {.max_in_flight = 100, .batch_episodes = 8, .staleness_max_steps = 1}}};
    options_.group_size = 4;
  }
  void Make() {
    dispatcher_ = std::make_unique<Dispatcher>(
        bus_, store_, clock_, journal_, train_, eval_,
        PolicyOrders(*TaskOrder::Make(train_, {}, 1), options_.policies), options_);
  }
  void Step() { dispatcher_->Step(clock_.Now()); }
  std::vector<v1::GroupLease> Issued() {
    Step(), store_.Answer(), Step();
    std::vector<v1::GroupLease> groups;
    for (const Lease& lease : bus_.Receive(kGroupsTopic, 100).value()) {
      EXPECT_TRUE(groups.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return groups;
  }
  void Report(uint64_t group, uint32_t revision, uint32_t accepted, uint32_t dropped,
              bool reissue = false) {
    v1::DispatchEvent event;
    event.mutable_group()->set_group(group);
    event.mutable_group()->set_revision(revision);
    event.mutable_group()->set_accepted(accepted);
    event.mutable_group()->set_dropped(dropped);
    event.mutable_group()->set_reissue(reissue);
    EXPECT_TRUE(bus_.Publish(kDispatchTopic, event.SerializeAsString()).ok());
  }
  void StepDone(uint64_t step, bool last = false, const std::string& policy = "") {
    v1::DispatchEvent event;
    event.mutable_step()->set_policy(policy);
    event.mutable_step()->set_step(step);
    event.mutable_step()->set_last(last);
    EXPECT_TRUE(bus_.Publish(kDispatchTopic, event.SerializeAsString()).ok());
  }

  VirtualClock clock_;
  MemoryBus memory_{clock_};
  LossyBus bus_{memory_};
  FakeStore store_;
  EvalJournal journal_;
  std::vector<v1::Task> train_ = Tasks(5, "t"), eval_ = Tasks(2, "e");
  DispatcherOptions options_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(DispatcherTest, IssuesExactlyWhatTheGateAllowsAndNotBeforeTheLedgerHasIt) {
  Make();
  Step();
  EXPECT_TRUE(bus_.Receive(kGroupsTopic, 10)->empty()) << "the ledger has not answered";
  store_.Answer();
  // (eta + v + 1) B = 16 episodes = 4 groups
  std::vector<v1::GroupLease> groups = Issued();
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_FALSE(groups[0].task().has_grading()) << "hidden tests never go to rollout";
  EXPECT_TRUE(Issued().empty());
  StepDone(1);
  EXPECT_EQ(Issued().size(), 2u);
}

// As IssuesExactlyWhatTheGateAllows, each by its own steps.
TEST_F(DispatcherTest, EachPolicyHasAGateAndGoesThroughTheTasksOnItsOwn) {
  options_.policies = PolicyNames({"coder", "planner"});
  const GateOptions gate = options_.trained[0].gate;
  options_.trained = {{.id = PolicyId{1}, .gate = gate}, {.id = PolicyId{2}, .gate = gate}};
  options_.eval_during = {{"coder:during", {}, 2, 1, PolicyId{1}},
                          {"planner:during", {}, 2, 1, PolicyId{2}}};
  options_.eval_every_steps = 1;
  Make();
  const auto tasks_of = [](const std::vector<v1::GroupLease>& groups, const std::string& policy) {
    std::vector<std::string> tasks;
    for (const v1::GroupLease& group : groups) {
      if (group.policy() == policy && group.purpose() == v1::PURPOSE_TRAIN)
        tasks.push_back(group.task().id());
    }
    return tasks;
  };
  const std::vector<v1::GroupLease> first = Issued();
  EXPECT_EQ(first.size(), 8u);
  EXPECT_EQ(tasks_of(first, "coder").size(), 4u);
  EXPECT_EQ(tasks_of(first, "coder"), tasks_of(first, "planner"));
  StepDone(1, false, "planner");
  const std::vector<v1::GroupLease> more = Issued();
  EXPECT_EQ(tasks_of(more, "planner").size(), 2u);
  EXPECT_TRUE(tasks_of(more, "coder").empty());
  for (const v1::GroupLease& group : more) {
    EXPECT_EQ(group.policy(), "planner") << "also of the evaluation " << group.eval_name();
  }
  EXPECT_EQ(more.size(), 4u) << "two of training, two of planner:during-step-1";
  StepDone(1, false, "somebody");
  StepDone(2, true, "coder");
  EXPECT_TRUE(tasks_of(Issued(), "coder").empty()) << "it took its last step";
  Report(first[0].group(), 1, 0, 4, true);
  EXPECT_TRUE(tasks_of(Issued(), "planner").empty()) << "the credit is the coder's";
}

TEST_F(DispatcherTest, AResumedPolicyGoesOnWithItsOwnStepsAndTask) {
  options_.policies = PolicyNames({"coder", "planner"});
  const GateOptions gate = options_.trained[0].gate;
  options_.trained = {{.id = PolicyId{1}, .gate = gate, .steps_done = 2},
                      {.id = PolicyId{2}, .gate = gate, .steps_done = 1}};
  PolicyOrders orders(*TaskOrder::Make(train_, {}, 1), options_.policies);
  ASSERT_TRUE(orders.Seek("coder=0:4,planner=0:2,gone=7:1").ok());
  EXPECT_EQ(orders.Cursor(), "coder=0:4,planner=0:2");
  EXPECT_FALSE(orders.Seek("0:4").ok());
  TaskOrder alone = *TaskOrder::Make(train_, {}, 1);
  ASSERT_TRUE(alone.Seek("0:2").ok());
  dispatcher_ = std::make_unique<Dispatcher>(bus_, store_, clock_, journal_, train_, eval_,
                                             std::move(orders), options_);
  EXPECT_EQ(dispatcher_->gate(PolicyId{1}).steps(), 2);
  EXPECT_EQ(dispatcher_->gate(PolicyId{2}).steps(), 1);
  for (const v1::GroupLease& group : Issued()) {
    if (group.policy() == "planner") {
      EXPECT_EQ(group.task().id(), train_[alone.Next()].id());
    }
  }
}

// A group of a team stands in the gate of each policy, and each gets its own credit back.
TEST_F(DispatcherTest, AGroupOfATeamIsIssuedWhereEachOfItsPoliciesHasRoom) {
  options_.policies = PolicyNames({"coder", "planner"});
  options_.team = true;
  const GateOptions gate = options_.trained[0].gate;
  options_.trained = {{.id = PolicyId{1}, .gate = gate, .max_steps = 2},
                      {.id = PolicyId{2}, .gate = gate, .max_steps = 2}};
  Make();
  const std::vector<v1::GroupLease> first = Issued();
  ASSERT_EQ(first.size(), 4u) << "as many as of one policy";
  EXPECT_EQ(dispatcher_->gate(PolicyId{1}).running(), 16);
  EXPECT_EQ(dispatcher_->gate(PolicyId{2}).running(), 16);
  const auto report = [&](uint64_t group, uint32_t revision, bool coder, bool planner) {
    v1::DispatchEvent event;
    v1::GroupReport& told = *event.mutable_group();
    told.set_group(group), told.set_revision(revision), told.set_accepted(4);
    for (const auto& [name, accepted] :
         {std::pair("coder", coder), std::pair("planner", planner)}) {
      v1::PolicyCredit& credit = *told.add_credits();
      credit.set_policy(name);
      (accepted ? credit.set_accepted(4) : credit.set_dropped(4));
    }
    EXPECT_TRUE(bus_.Publish(kDispatchTopic, event.SerializeAsString()).ok());
  };
  report(first[0].group(), 1, true, false);
  EXPECT_TRUE(Issued().empty()) << "the coder has no room";
  EXPECT_EQ(dispatcher_->gate(PolicyId{1}).accepted(), 4);
  EXPECT_EQ(dispatcher_->gate(PolicyId{2}).accepted(), 0);
  EXPECT_EQ(dispatcher_->gate(PolicyId{2}).running(), 12);
  report(first[0].group(), 2, false, false);
  report(first[0].group(), 2, false, false);
  EXPECT_EQ(Issued().size(), 1u) << "withdrawn once";
  StepDone(2, false, "coder");  // the learner says that it was the last when all have taken theirs
  EXPECT_TRUE(Issued().empty()) << "the planner has no room";
  StepDone(1, false, "planner");
  EXPECT_EQ(Issued().size(), 2u) << "one that took its last step holds nobody back";
  StepDone(2, false, "planner");
  EXPECT_TRUE(Issued().empty()) << "nobody learns from them any more";
}

TEST_F(DispatcherTest, ADroppedGroupGivesItsCreditBackOnceHoweverOftenItIsReported) {
  Make();
  std::vector<v1::GroupLease> groups = Issued();
  for (int i = 0; i < 3; ++i) Report(groups[0].group(), 1, 0, 4);
  EXPECT_EQ(Issued().size(), 1u);
}

TEST_F(DispatcherTest, AGroupThatASessionWantsIsIssuedNextAndItsRewardsAreTold) {
  Make();
  std::vector<v1::GroupLease> groups = Issued();
  const auto want = [&](uint64_t session, const std::string& task) {
    v1::SiblingsWanted wanted;
    wanted.set_session(session);
    wanted.set_task(task);
    wanted.set_members(4);
    EXPECT_TRUE(bus_.Publish(kSiblingsWantedTopic, wanted.SerializeAsString()).ok());
  };
  const auto told = [&] {
    std::vector<v1::SiblingsDone> reports;
    for (const Lease& lease : bus_.Receive(kSiblingsTopic, 100).value()) {
      EXPECT_TRUE(reports.emplace_back().ParseFromString(lease.body));
      EXPECT_TRUE(bus_.Ack(lease).ok());
    }
    return reports;
  };
  want(77, "t3");
  want(78, "no such task");
  groups = Issued();
  ASSERT_EQ(groups.size(), 1u) << "a step may wait for it: it does not wait for a step";
  std::vector<v1::SiblingsDone> reports = told();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].session(), 78u);
  EXPECT_EQ(reports[0].scored(), 0u);
  EXPECT_EQ(groups[0].task().id(), "t3");
  EXPECT_EQ(groups[0].members(), 4u);
  StepDone(1);
  EXPECT_EQ(Issued().size(), 1u) << "one less than a step makes room for";
  v1::DispatchEvent event;
  event.mutable_group()->set_group(groups[0].group());
  event.mutable_group()->set_revision(1);
  event.mutable_group()->set_accepted(4);
  event.mutable_group()->set_scored(3);
  event.mutable_group()->set_reward_sum(1.5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(bus_.Publish(kDispatchTopic, event.SerializeAsString()).ok());
    Step();
  }
  reports = told();
  ASSERT_EQ(reports.size(), 1u) << "once, however often it is reported";
  EXPECT_EQ(reports[0].session(), 77u);
  EXPECT_EQ(reports[0].scored(), 3u);
  EXPECT_DOUBLE_EQ(reports[0].reward_sum(), 1.5);
}

TEST_F(DispatcherTest, ATaskThatAlwaysFailsThroughUsWaitsForItsTurnAndTheOthersGoOn) {
  Make();
  std::vector<v1::GroupLease> groups = Issued();
  const std::string broken = groups[0].task().id();
  for (int round = 0; round < 3; ++round) {
    for (const v1::GroupLease& group : groups) {
      if (group.task().id() == broken) Report(group.group(), 1, 0, 4, true);
    }
    groups = Issued();
    ASSERT_EQ(groups.size(), 1u);
    EXPECT_EQ(groups[0].task().id() == broken, round < 2) << round;
  }
  EXPECT_EQ(dispatcher_->counters().put_off, 1u);
}

TEST_F(DispatcherTest, AGroupTooOldForABatchIsWithdrawnAndItsTaskIssuedAgain) {
  Make();
  std::vector<v1::GroupLease> groups = Issued();
  Report(groups[0].group(), 1, 4, 0);
  EXPECT_TRUE(Issued().empty());
  Report(groups[0].group(), 2, 0, 4, true);
  std::vector<v1::GroupLease> again = Issued();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].task().id(), groups[0].task().id());
  EXPECT_NE(again[0].group(), groups[0].group());
}

TEST_F(DispatcherTest, ASynchronousRunIssuesOneBatchAStep) {
  options_.trained[0].gate.staleness_max_steps = 0;
  Make();
  std::vector<v1::GroupLease> groups = Issued();
  ASSERT_EQ(groups.size(), 2u);
  for (const v1::GroupLease& group : groups) Report(group.group(), 1, 4, 0);
  EXPECT_TRUE(Issued().empty()) << "the batch is complete, the step not done";
  StepDone(1);
  EXPECT_EQ(Issued().size(), 2u);
}

TEST_F(DispatcherTest, EvaluatesBeforeTrainingAndAfterTheLastStep) {
  EvalPlan plan;
  plan.name = "before", plan.samples = 3;
  options_.eval_before = {plan};
  plan.name = "after";
  options_.eval_after = {plan};
  Make();
  std::vector<v1::GroupLease> evals = Issued();
  ASSERT_EQ(evals.size(), 2u);
  EXPECT_EQ(evals[0].purpose(), v1::PURPOSE_EVAL);
  for (const v1::GroupLease& group : evals) Report(group.group(), 1, 3, 0);
  EXPECT_EQ(Issued().size(), 4u) << "training begins";
  StepDone(1, true);
  evals = Issued();
  ASSERT_EQ(evals.size(), 2u);
  EXPECT_EQ(evals[0].eval_name(), "after");
  EXPECT_FALSE(dispatcher_->counters().done);
  for (const v1::GroupLease& group : evals) Report(group.group(), 1, 3, 0);
  Step();
  EXPECT_TRUE(dispatcher_->counters().done);
}

// One task with two samples solved of two, one with one of four: 0.625, not three of six.
TEST_F(DispatcherTest, ThePassRateOfAnEvaluationIsTheMeanOverItsTasks) {
  options_.eval_before = {{"before", {}, 4, 1}};
  Make();
  const std::vector<v1::GroupLease> evals = Issued();
  ASSERT_EQ(evals.size(), 2u);
  for (size_t i = 0; i < evals.size(); ++i) {
    v1::DispatchEvent event;
    v1::GroupReport& report = *event.mutable_group();
    report.set_group(evals[i].group());
    report.set_revision(1);
    report.set_accepted(4);
    report.set_scored(i == 0 ? 2 : 4);
    report.set_solved(i == 0 ? 2 : 1);
    EXPECT_TRUE(bus_.Publish(kDispatchTopic, event.SerializeAsString()).ok());
  }
  Step();
  ASSERT_EQ(journal_.evals.size(), 1u);
  EXPECT_DOUBLE_EQ(journal_.evals[0]["pass_rate"], 0.625);
  EXPECT_EQ(journal_.evals[0]["unscored"], 2);
}

TEST_F(DispatcherTest, AnEvaluationInWhichNothingWasScoredHasNoRate) {
  options_.eval_before = {{"before", {}, 4, 1}};
  Make();
  for (const v1::GroupLease& group : Issued()) Report(group.group(), 1, 0, 4);
  Step();
  ASSERT_EQ(journal_.evals.size(), 1u);
  EXPECT_FALSE(journal_.evals[0].contains("pass_rate")) << "none is not 0 %";
  EXPECT_FALSE(journal_.evals[0].contains("reward"));
  EXPECT_EQ(journal_.evals[0]["unscored"], 8);
}

TEST_F(DispatcherTest, TheLedgerTellsEvaluationsApartByTheirFirstGroupAndStep) {
  options_.eval_before = {{"before", {}, 2, 1}};
  options_.eval_after = {{"after", {}, 2, 1}};
  Make();
  std::vector<v1::GroupLease> evals = Issued();
  for (const v1::GroupLease& group : evals) Report(group.group(), 1, 2, 0);
  Issued();
  StepDone(3, true);
  const std::vector<v1::GroupLease> after = Issued();
  ASSERT_EQ(after.size(), 2u);
  const auto evaluation_of = [&](uint64_t group) -> std::optional<GroupEvaluation> {
    for (const StoreOp& op : store_.ops) {
      const auto* put = std::get_if<PutGroup>(&op);
      if (put != nullptr && put->group.group() == group) return put->evaluation;
    }
    return std::nullopt;
  };
  for (const v1::GroupLease& group : after) {
    const auto evaluation = evaluation_of(group.group());
    ASSERT_TRUE(evaluation.has_value());
    EXPECT_EQ(evaluation->number, after[0].group());
    EXPECT_EQ(evaluation->step, 3u);
    EXPECT_EQ(evaluation->tasks, 2u);
  }
  EXPECT_EQ(evaluation_of(evals[1].group())->number, evals[0].group());
  EXPECT_EQ(evaluation_of(evals[1].group())->step, 0u);
}

TEST_F(DispatcherTest, AnInterruptedRunIssuesNeitherGroupsNorTheLastEvaluation) {
  options_.eval_after = {{"after", {}, 2, 1}};
  Make();
  const std::vector<v1::GroupLease> groups = Issued();
  ASSERT_FALSE(groups.empty());
  dispatcher_->IssueNoMore();
  for (const v1::GroupLease& group : groups) Report(group.group(), 1, 0, 4, true);
  EXPECT_TRUE(Issued().empty());
  StepDone(1, /*last=*/true);
  EXPECT_TRUE(Issued().empty());
  EXPECT_EQ(dispatcher_->counters().groups_dropped, groups.size()) << "reports are heard";
}

TEST_F(DispatcherTest, AResumedRunIssuesWhatWasOutstandingAgainUnderTheSameNumber) {
  v1::GroupLease outstanding;
  outstanding.set_group(9), outstanding.set_members(4), outstanding.set_purpose(v1::PURPOSE_TRAIN);
  outstanding.mutable_task()->set_id("t3");
  options_.outstanding = {outstanding};
  options_.next_group = 10;
  options_.trained[0].steps_done = 2;
  Make();
  std::vector<v1::GroupLease> groups = Issued();
  ASSERT_EQ(groups.size(), 4u) << "one of before and three new ones: (1 + 2 + 1) * 8 - 2 * 8 = 16";
  EXPECT_EQ(groups[0].group(), 9u);
  EXPECT_EQ(groups[1].group(), 10u);
}

TEST(TaskOrder, EveryTaskComesOnceAnEpochAndTheCursorGoesOn) {
  const std::vector<v1::Task> tasks = Tasks(6, "t");
  TaskOrder order = *TaskOrder::Make(tasks, {}, 3);
  std::vector<int> seen(6);
  for (int i = 0; i < 12; ++i) ++seen[order.Next()];
  EXPECT_EQ(seen, std::vector<int>(6, 2));
  order.Next();
  TaskOrder other = *TaskOrder::Make(tasks, {}, 3);
  ASSERT_TRUE(other.Seek(order.Cursor()).ok());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(order.Next(), other.Next());
  EXPECT_FALSE(other.Seek("1:99").ok());
  EXPECT_FALSE(other.Seek("later").ok());
}

TEST(TaskOrder, WeightsByTagDecideHowOften) {
  std::vector<v1::Task> tasks = Tasks(2, "t");
  tasks[1].add_tags("hard");
  TaskOrder order = *TaskOrder::Make(tasks, {{"hard", 2.5}}, 3);
  int hard = 0;
  for (int i = 0; i < 3500; ++i) hard += order.Next() == 1 ? 1 : 0;
  EXPECT_NEAR(hard, 2500, 50);
  EXPECT_FALSE(TaskOrder::Make(Tasks(1, "t"), {}, 1)->Seek("").ok());
  tasks[0].add_tags("hard");
  EXPECT_FALSE(TaskOrder::Make(tasks, {{"hard", 0}}, 1).ok());
}

TEST_F(DispatcherTest, OnlyWhoHoldsTheLeaseCanGiveAGroupUp) {
  options_.secret = "of the run";
  Make();
  const std::vector<v1::GroupLease> groups = Issued();
  EXPECT_EQ(groups[0].token().size(), 32u);
  EXPECT_NE(groups[0].token(), groups[1].token());
  const auto give_up = [&](uint64_t group, const std::string& token) {
    v1::GroupGivenUp given_up;
    given_up.set_group(group), given_up.set_token(token);
    EXPECT_TRUE(bus_.Publish(kGivenUpTopic, given_up.SerializeAsString()).ok());
  };
  give_up(groups[0].group(), "");
  give_up(groups[0].group(), groups[1].token());
  EXPECT_TRUE(Issued().empty()) << "no credit came back";
  EXPECT_EQ(bus_.Depth(kGivenUpTopic)->dead, 2u);
  give_up(groups[0].group(), groups[0].token());
  EXPECT_EQ(Issued().size(), 1u);
  const auto& stored = std::get<PutGroupReport>(store_.ops.at(store_.ops.size() - 2)).report;
  EXPECT_EQ(stored.dropped(), 4u);
  EXPECT_EQ(stored.revision(), 1u);
}

TEST_F(DispatcherTest, AGroupNobodyReportsOnIsSentAgainAndCountsOnce) {
  options_.group_patience = std::chrono::minutes(10);
  Make();
  const std::vector<v1::GroupLease> groups = Issued();
  Report(groups[0].group(), 1, 4, 0);
  clock_.Advance(std::chrono::minutes(9));
  EXPECT_TRUE(Issued().empty());
  clock_.Advance(std::chrono::minutes(2));
  const std::vector<v1::GroupLease> again = Issued();
  ASSERT_EQ(again.size(), groups.size() - 1) << "all but the one that was reported";
  EXPECT_EQ(again[0].SerializeAsString(), groups[1].SerializeAsString());
  EXPECT_EQ(dispatcher_->gate(PolicyId::kMain).running(),
            static_cast<int64_t>(4 * (groups.size() - 1)));
}

TEST_F(DispatcherTest, GroupsThatTheBusLostAreSentAgainAtOnce) {
  Make();
  const std::vector<v1::GroupLease> groups = Issued();
  Report(groups[0].group(), 1, 4, 0);
  EXPECT_TRUE(Issued().empty());
  bus_.Lose(kGroupsTopic);
  EXPECT_EQ(Issued().size(), groups.size() - 1) << "all but the one that was reported";
  EXPECT_TRUE(Issued().empty()) << "once";
}

}  // namespace
}  // namespace tidemill
