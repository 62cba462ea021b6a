#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "run/check_backends.h"
#include "run/loop_options.h"
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

TEST(CheckConfig, WhatSkillsCannotDoIsRefusedByName) {
  EXPECT_EQ(CheckOf({"skills.on=true", "skills.curator=http://127.0.0.1:1/v1"}), "");
  EXPECT_EQ(CheckOf({"skills.on=true", "agent.preset=codex"}), "");
  EXPECT_THAT(CheckOf({"skills.curator=http://127.0.0.1:1/v1"}), HasSubstr("skills.curator"));
  EXPECT_THAT(CheckOf({"skills.from=/tmp"}), HasSubstr("skills.from"));
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

TEST(CheckConfig, WhatABackendWouldTrainOtherwiseThanTheConfigSaysIsRefusedByName) {
  const std::vector<std::string> vllm = {"engine.backend=vllm", "engine.urls=http://there"};
  const std::vector<std::string> sglang = {"engine.backend=sglang", "engine.urls=http://there"};
  const std::vector<std::string> fsdp2 = {"learner.backend=fsdp2"};
  const auto with = [](std::vector<std::string> backend, const std::string& setting) {
    backend.push_back(setting);
    return CheckOf(backend);
  };
  for (const auto& backend : {vllm, sglang, fsdp2}) {
    EXPECT_EQ(CheckOf(backend), "");
    EXPECT_EQ(with(backend, "rollout.top_p=1"), "");
    EXPECT_EQ(with(backend, "rollout.temperature=0.5"), "");
    EXPECT_THAT(with(backend, "rollout.top_p=0.95"), HasSubstr("rollout.top_p"));
    EXPECT_THAT(with(backend, "rollout.top_k=50"), HasSubstr("rollout.top_k"));
    EXPECT_THAT(with(backend, "rollout.min_p=0.1"), HasSubstr("rollout.min_p"));
    EXPECT_THAT(with(backend, "rollout.constrain=tools"), HasSubstr("rollout.constrain"));
  }
  EXPECT_THAT(with(vllm, "rollout.top_p=0.95"), HasSubstr("engine.backend = \"own\""));
  EXPECT_THAT(with(fsdp2, "rollout.top_p=0.95"), HasSubstr("learner.backend = \"own\""));
  EXPECT_EQ(CheckOf({"rollout.top_p=0.95", "rollout.top_k=50", "rollout.min_p=0.1"}), "");
  for (const char* setting :
       {"learner.balance_loss=0.01", "learner.lora_experts=true", "learner.optimizer_state=host",
        "learner.reserve_multiprocessors=8"}) {
    const std::string key = std::string(setting).substr(0, std::string(setting).find('='));
    EXPECT_THAT(with(fsdp2, setting), HasSubstr(key));
    EXPECT_EQ(CheckOf({setting}), "");
    EXPECT_EQ(with(vllm, setting), "");
  }
}

TEST(CheckConfig, ExpertsThatNobodyKnowsAreNotSaidToBeReplayed) {
  ModelConfig dense, experts;
  experts.experts.count = 8;
  RunConfig config;
  EXPECT_TRUE(CheckReplayedExperts(config, experts).ok());
  for (std::string* backend : {&config.engine.backend, &config.learner.backend}) {
    const std::string own =
        std::exchange(*backend, backend == &config.engine.backend ? "vllm" : "fsdp2");
    EXPECT_TRUE(CheckReplayedExperts(config, dense).ok());
    EXPECT_THAT(CheckReplayedExperts(config, experts).message(),
                HasSubstr("learner.replay_experts"));
    config.learner.replay_experts = false;
    EXPECT_TRUE(CheckReplayedExperts(config, experts).ok());
    config.learner.replay_experts = true;
    *backend = own;
  }
}

TEST(CheckConfig, AnMcpServerIsAnAddressOrAProgram) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  config.model.path = config.tasks.train = "there";
  const auto with = [&](const McpConfig& one, size_t copies = 1) {
    config.tools.mcp.assign(copies, one);
    return CheckRunConfig(config, binder).message();
  };
  McpConfig one;
  one.name = "a";
  EXPECT_THAT(with(one), HasSubstr("needs a url or a command"));
  one.url = "http://there/mcp";
  EXPECT_EQ(with(one), "");
  EXPECT_THAT(with(one, 2), HasSubstr("two of this name"));
  one.mounts = {"/opt"};
  EXPECT_THAT(with(one), HasSubstr("mounts and environment"));
  one.command = {"server"};
  EXPECT_THAT(with(one), HasSubstr("and not both"));
  one.url.clear();
  EXPECT_EQ(with(one), "");
  one.key_file = "key";
  EXPECT_THAT(with(one), HasSubstr("key_file is for a url"));
}

TEST(CheckConfig, ToolsOfAnMcpServerAreOfferedInItsWordsAndTheirResultsAreNotShared) {
  RunConfig config;
  config.tools.mcp.resize(1);
  config.tools.mcp[0].name = "handbook";
  config.tools.mcp[0].prefix = "hb_";
  EXPECT_THAT(ProtocolOptionsFrom(config).status().message(),
              HasSubstr("tools.mcp \"handbook\": the server was not asked"));
  config.tools.mcp[0].listed =
      R"({"tools": [{"name": "search", "description": "Finds a page.",
                     "inputSchema": {"type": "object", "required": ["word"]}}]})";
  const auto options = ProtocolOptionsFrom(config);
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  const ToolDescription& tool = options->tools.back();
  EXPECT_EQ(tool.name, "hb_search");
  EXPECT_EQ(tool.description, "Finds a page.");
  EXPECT_THAT(tool.parameters_json, HasSubstr("\"required\":[\"word\"]"));
  v1::Task task;
  task.add_tools("hb_search");
  EXPECT_TRUE(CheckTools({task}, *options).ok());
  task.add_tools("search");
  EXPECT_FALSE(CheckTools({task}, *options).ok());
  const auto loops = LoopOptionsFrom(config, {});
  ASSERT_TRUE(loops.ok()) << loops.status().ToString();
  EXPECT_TRUE(loops->tools.asked_tools.contains("hb_search"));
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
