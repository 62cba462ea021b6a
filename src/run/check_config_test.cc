#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/policies.h"
#include "run/run_config.h"
#include "run/teams.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string CheckOf(const std::vector<std::string>& settings) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  std::vector<std::string> all = {"model.path=there", "tasks.train=there"};
  all.insert(all.end(), settings.begin(), settings.end());
  for (const std::string& setting : all) {
    const Status set = binder.Set(setting);
    EXPECT_TRUE(set.ok()) << set.ToString();
  }
  return CheckRunConfig(config, binder).message();
}

TEST(CheckConfig, WhatSeveralPoliciesCannotBeTogetherWithIsRefusedByName) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), {"policy.coder.rank=4", "policy.planner.rank=8"});
    return CheckOf(more);
  };
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(with({"policy.default.train=false"}), "");
  EXPECT_EQ(CheckOf({"policy.coder.learning_rate=0.01", "learner.lora_rank=4"}), "");
  EXPECT_THAT(CheckOf({"policy.coder.learning_rate=0.01"}), HasSubstr("coder has no rank"));
  EXPECT_THAT(with({"policy.judge.train=false"}), HasSubstr("judge is not trained"));
  EXPECT_THAT(CheckOf({"policy.default.train=false"}), HasSubstr("none of the policies"));
  EXPECT_THAT(with({"policy.best.rank=2"}), HasSubstr("best is a name in the folder"));
  EXPECT_THAT(with({"learner.ranks=2"}), HasSubstr("learner.ranks above 1"));
  EXPECT_THAT(with({"live.on=true"}), HasSubstr("live.on"));
  EXPECT_THAT(with({"model.adapter=there"}), HasSubstr("model.adapter"));
  EXPECT_THAT(with({"agent.preset=codex"}), HasSubstr("[agent]"));
  EXPECT_THAT(with({"learner.backend=fsdp2"}), HasSubstr("learner.backend"));
  EXPECT_THAT(with({"engine.backend=vllm", "engine.urls=http://there", "engine.folder=there"}),
              HasSubstr("engine.backend"));
  EXPECT_THAT(with({"policy.coder.max_steps=9"}), HasSubstr("coder.hard_max_steps"));
}

TEST(CheckConfig, ATeamThatCannotBeIsRefusedByTheKey) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"policy.coder.rank=4", "policy.planner.rank=8", "team.kind=chain",
                 "team.roles=plan,code", "role.plan.policy=planner", "role.code.policy=coder"});
    return CheckOf(more);
  };
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(CheckOf({"team.kind=review", "team.roles=code,look"}), "") << "of the one policy";
  EXPECT_THAT(CheckOf({"role.code.files=false"}), HasSubstr("needs a team"));
  EXPECT_THAT(CheckOf({"team.kind=chain"}), HasSubstr("team.roles"));
  EXPECT_THAT(CheckOf({"team.kind=review", "team.roles=a,b,c"}), HasSubstr("must be two"));
  EXPECT_THAT(CheckOf({"team.kind=vote", "team.roles=a,b"}), HasSubstr("three or more"));
  EXPECT_THAT(with({"role.spy.files=false"}), HasSubstr("spy is not in team.roles"));
  EXPECT_THAT(with({"role.code.policy=default"}), HasSubstr("no [policy.default]"));
  EXPECT_THAT(with({"role.code.policy=nobody"}), HasSubstr("no [policy.nobody]"));
  EXPECT_THAT(with({"role.code.policy=planner"}), HasSubstr("coder draws no role"));
  EXPECT_THAT(with({"memory.on=true"}), HasSubstr("memory.on"));
  EXPECT_THAT(with({"background.allowed=lint"}), HasSubstr("[background]"));
}

TEST(CheckConfig, ATeamsSeatsAreItsRolesInTheirOrder) {
  RunConfig config;
  config.policies = {{.name = "coder"}, {.name = "planner"}};
  config.team = {.kind = "chain", .roles = {"plan", "code", "plan"}};
  config.roles = {{.name = "code", .policy = "coder", .prompt = "{given}", .files = true},
                  {.name = "plan", .policy = "planner", .files = false}};
  const TeamPlan plan = TeamPlanFrom(config).value();
  ASSERT_EQ(plan.seats.size(), 2u);
  EXPECT_EQ(plan.order, (std::vector<size_t>{0, 1, 0}));
  EXPECT_EQ(plan.seats[0].policy->name, "planner");
  EXPECT_FALSE(plan.seats[0].shows_files);
  EXPECT_EQ(plan.seats[1].policy->id, PolicyId{1});
  EXPECT_EQ(plan.seats[1].prompt, "{given}");
  EXPECT_EQ(TeamRoles(config),
            (std::map<std::string, PolicyId>{{"code", PolicyId{1}}, {"plan", PolicyId{2}}}));
  config.replay.max_uses = 3;
  EXPECT_EQ(UsesOfAll(config), 6u);
  config.team.kind = "vote";
  EXPECT_EQ(TeamPlanFrom(config)->seats.size(), 3u) << "each voter on its own";
}

TEST(CheckConfig, APolicyIsToldWhatItsTableSaysAndElseWhatTheLearnerIs) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  const std::string alone = binder.ToToml("");
  ASSERT_EQ(PoliciesOf(config).size(), 1u);
  EXPECT_EQ(PolicyNamesOf(config).size(), 1u);
  for (const char* setting :
       {"learner.lora_rank=4", "learner.learning_rate=0.01", "run.steps=10",
        "policy.planner.rank=8", "policy.coder.learning_rate=0.5", "policy.default.train=false"}) {
    ASSERT_TRUE(binder.Set(setting).ok());
  }
  EXPECT_EQ(alone.find("[policy"), std::string::npos) << "a run with one policy has no such table";
  const std::vector<RunPolicy> policies = PoliciesOf(config);
  ASSERT_EQ(policies.size(), 3u);
  EXPECT_EQ(policies[0].id, PolicyId::kMain);
  EXPECT_FALSE(policies[0].trained);
  EXPECT_EQ(policies[0].config.learner.lora_rank, 0u) << "the base alone";
  EXPECT_EQ(policies[1].name, "coder");
  EXPECT_EQ(policies[1].config.learner.lora_rank, 4u);
  EXPECT_EQ(policies[1].config.learner.learning_rate, 0.5);
  EXPECT_EQ(policies[2].name, "planner");
  EXPECT_EQ(policies[2].config.learner.lora_rank, 8u);
  EXPECT_EQ(policies[2].config.learner.learning_rate, 0.01);
  EXPECT_EQ(*PolicyNamesOf(config).Find("planner"), policies[2].id);
  EXPECT_EQ(RunStepsOf(config), 20u);
}

TEST(CheckConfig, WhatMemoryCannotDoIsRefusedByName) {
  EXPECT_EQ(CheckOf({}), "");
  EXPECT_EQ(CheckOf({"memory.on=true", "memory.retrieval=hidden", "memory.key_layers=2"}), "");
  EXPECT_THAT(CheckOf({"memory.on=true", "memory.key_layers=2"}), HasSubstr("memory.key_layers"));
  EXPECT_THAT(CheckOf({"memory.only=true"}), HasSubstr("memory.only"));
  EXPECT_THAT(CheckOf({"memory.on=true", "memory.retrieval=hidden", "agent.preset=codex"}),
              HasSubstr("an agent that is a program"));
}

TEST(CheckConfig, AToolIsInTheBackgroundInOneWayAndServersCannotBeInterrupted) {
  EXPECT_EQ(CheckOf({"background.allowed=run_tests", "background.always=lint"}), "");
  EXPECT_THAT(CheckOf({"background.allowed=run_tests,lint", "background.always=lint"}),
              HasSubstr("names \"lint\", which background.allowed names, too"));
  EXPECT_EQ(CheckOf({"rollout.deliver=now"}), "");
  EXPECT_THAT(CheckOf({"rollout.deliver=now", "engine.backend=vllm", "engine.urls=http://there",
                       "engine.folder=there"}),
              HasSubstr("needs engine.backend = \"own\""));
}

TEST(CheckConfig, OneTeacherIsEnough) {
  EXPECT_EQ(CheckOf({"teacher.model=there"}), "");
  EXPECT_EQ(CheckOf({"teacher.policy=true", "teacher.hints=errors"}), "");
  EXPECT_THAT(CheckOf({"teacher.model=there", "teacher.endpoint=http://there"}),
              HasSubstr("teacher.endpoint"));
  EXPECT_THAT(CheckOf({"teacher.model=there", "teacher.policy=true"}),
              HasSubstr("is a second teacher"));
}

TEST(CheckConfig, HintsNeedATeacherAndWhatTheyAreMadeFrom) {
  EXPECT_THAT(CheckOf({"teacher.policy=true"}), HasSubstr("needs teacher.hints"));
  EXPECT_THAT(CheckOf({"teacher.hints=errors"}), HasSubstr("has no teacher"));
  EXPECT_THAT(CheckOf({"teacher.policy=true", "teacher.hints=judge"}),
              HasSubstr("needs a [[judge]] of turns"));
  EXPECT_THAT(CheckOf({"teacher.policy=true", "teacher.hints=judge_strongest"}),
              HasSubstr("needs a [[judge]] of turns"));
}

}  // namespace
}  // namespace tidemill
