// Environments of all standards that die, hang, answer garbage, refuse for capacity and close in
// the middle, many episodes at once.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "core/random.h"
#include "environments/environment_runner.h"
#include "rollout/episode.h"
#include "testing/agent_fixture.h"
#include "testing/scripted_gym.h"
#include "testing/scripted_open_env.h"
#include "testing/scripted_verifiers.h"

namespace tidemill {
namespace {

using Verifiers = ScriptedVerifiers;

class EnvironmentFaults : public AgentTest {
 protected:
  EnvironmentFaults() { episodes_ = 4096; }
  void TearDown() override {
    environments_.reset();
    gym_.reset();
    open_env_.reset();
    verifiers_.reset();
  }

  void Add(const char* standard, const HttpUrl& url, Duration timeout) {
    options_.environments.push_back({.name = standard,
                                     .standard = StandardNamed(standard),
                                     .mode = "",
                                     .urls = {url},
                                     .command = {},
                                     .slots = 64,
                                     .timeout = timeout});
  }
  void OpenRunner() {
    Serve("It is cold.");
    auto made =
        EnvironmentRunner::Create(std::move(options_), server_->gateway(), *recorder_, clock_);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    environments_ = std::move(*made);
    environments_->events().Attach(waker_);
  }
  void OpenVerifiers(Verifiers::Script script, Duration timeout = std::chrono::seconds(30)) {
    verifiers_ = std::make_unique<Verifiers>(std::move(script));
    Add("verifiers", verifiers_->url(), timeout);
    OpenRunner();
  }

  void StartEpisode(const char* standard, uint64_t tag) {
    auto group = std::make_shared<EpisodeGroup>();
    group->lease = lease_;
    group->lease.set_group(tag);
    const EnvironmentJson row = {{"responses_create_params", {{"input", "weather?"}}},
                                 {"tag", tag}};
    v1::EnvironmentTask& task = *group->lease.mutable_task()->mutable_environment();
    task.set_environment(standard);
    task.set_row_json(row.dump());
    environments_->Start({group, 0}, tag);
  }
  std::map<uint64_t, AgentOutcome> Await(size_t count) {
    std::map<uint64_t, AgentOutcome> all;
    for (int idle = 0; idle < 10 && all.size() < count; ++idle) {
      std::vector<AgentDone> done = environments_->events().TakeAll();
      if (done.empty()) waker_.Await();
      for (AgentDone& one : done) {
        EXPECT_TRUE(all.emplace(one.tag, std::move(one.outcome)).second) << "told twice";
        idle = 0;
      }
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }
  AgentOutcome Only() {
    StartEpisode("verifiers", 1);
    auto all = Await(1);
    return std::move(all[1]);
  }

  EnvironmentRunnerOptions options_;
  std::atomic<uint64_t> asked_{0};
  std::unique_ptr<ScriptedGym> gym_;
  std::unique_ptr<ScriptedOpenEnv> open_env_;
  std::unique_ptr<Verifiers> verifiers_;
  std::unique_ptr<EnvironmentRunner> environments_;
};

// The status of its question to the model.
int Play(const VerifiersRun& run, const std::string& trace, const Verifiers::Tell& tell) {
  tell("delta", WriteMsgpack(Verifiers::Open(trace, trace)));
  const int status = run.AskTheModel(trace, "weather? " + trace);
  tell("delta", WriteMsgpack(Verifiers::Turn(trace)));
  return status;
}

TEST_F(EnvironmentFaults, ARunOfVerifiersIsASessionWithItsRewardsByName) {
  OpenVerifiers([](const VerifiersRun& run, const Verifiers::Tell& tell) {
    EXPECT_EQ(run.task["tag"], 1);
    EXPECT_EQ(run.sampling["max_tokens"], 64);
    EXPECT_EQ(Play(run, "t1", tell), 200);
    tell("delta", WriteMsgpack(Verifiers::Paid("t1", 0.5, 2)));
    tell("reply", WriteMsgpack(Verifiers::Done({"t1"})));
  });
  const AgentOutcome outcome = Only();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  ASSERT_EQ(outcome.reward->parts_size(), 1);
  EXPECT_EQ(outcome.reward->parts(0).name(), "correct");
  EXPECT_EQ(outcome.reward->parts(0).value(), 0.5);
  EXPECT_EQ(outcome.reward->parts(0).weight(), 2);
  ASSERT_EQ(outcome.branches.size(), 1u);
  EXPECT_EQ(TextOf(outcome.branches[0].turns(0).ids()), "It is cold.<|im_end|>");
}

TEST_F(EnvironmentFaults, PlayersOfARunAreRolesOfTheEpisode) {
  OpenVerifiers([](const VerifiersRun& run, const Verifiers::Tell& tell) {
    for (const char* player : {"first", "second"}) {
      EXPECT_EQ(Play(run, player, tell), 200);
      tell("delta", WriteMsgpack(Verifiers::Paid(player, player[0] == 'f' ? 1 : 0, 1)));
    }
    tell("reply", WriteMsgpack(Verifiers::Done({"first", "second"})));
  });
  const AgentOutcome outcome = Only();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  ASSERT_EQ(outcome.reward->parts_size(), 2);
  EXPECT_EQ(outcome.reward->parts(0).player(), "first");
  EXPECT_EQ(outcome.reward->parts(1).player(), "second");
  ASSERT_EQ(outcome.branches.size(), 2u);
  std::map<std::string, int> roles;
  for (const v1::Trajectory& branch : outcome.branches) ++roles[branch.turns(0).role()];
  EXPECT_EQ(roles, (std::map<std::string, int>{{"first", 1}, {"second", 1}}));
}

// A run that was begun anew inside of the environment, and one that tells of other ids.
TEST_F(EnvironmentFaults, WhatTheGatewayDidNotRecordIsNotTrainedOn) {
  OpenVerifiers([this](const VerifiersRun& run, const Verifiers::Tell& tell) {
    EXPECT_EQ(Play(run, "t1", tell), 200);
    if (asked_++ == 0) {
      tell("delta", WriteMsgpack({{"trace", "t1"}, {"discard", true}}));
      EXPECT_EQ(Play(run, "t2", tell), 200);
      tell("delta", WriteMsgpack(Verifiers::Paid("t2", 0, 1)));
      return tell("reply", WriteMsgpack(Verifiers::Done({"t2"})));
    }
    const EnvironmentJson other = {{"sampled", true},
                                   {"token_ids", EnvironmentJson::array({1, 2})},
                                   {"mask", EnvironmentJson::array({false, true})}};
    EnvironmentJson delta = Verifiers::Paid("t1", 0, 1);
    delta["nodes"] = EnvironmentJson::array({other});
    tell("delta", WriteMsgpack(delta));
    EnvironmentJson done = Verifiers::Done({"t1"});
    done["traces"][0]["nodes"] = 3;
    tell("reply", WriteMsgpack(done));
  });
  StartEpisode("verifiers", 1);
  StartEpisode("verifiers", 2);
  for (const auto& [tag, outcome] : Await(2)) {
    EXPECT_FALSE(outcome.status.ok());
    EXPECT_EQ(outcome.failure, Failure::kEnvironment);
  }
}

// Beyond its turns the agent's requests are refused; what the environment makes of that is the end.
TEST_F(EnvironmentFaults, AnEpisodeThatIsRefusedMoreTurnsIsAResult) {
  lease_.set_max_turns(1);
  OpenVerifiers([](const VerifiersRun& run, const Verifiers::Tell& tell) {
    EXPECT_EQ(Play(run, "t1", tell), 200);
    EXPECT_NE(run.AskTheModel("t1", "and more?"), 200);
    tell("reply", WriteMsgpack({{"success", false}, {"error", "ProviderError: upstream 400"}}));
  });
  const AgentOutcome outcome = Only();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  EXPECT_EQ(outcome.end, v1::EPISODE_END_MAX_TURNS);
  EXPECT_EQ(outcome.reward->parts(0).value(), 0);
}

TEST_F(EnvironmentFaults, ACancelledRunIsCancelledThereToo) {
  OpenVerifiers([this](const VerifiersRun&, const Verifiers::Tell&) { environments_->Cancel(1); });
  EXPECT_FALSE(Only().status.ok());
  while (verifiers_->cancelled() == 0) std::this_thread::yield();
}

void GymScript(uint64_t drawn, const HttpRequest& request, HttpReply& reply) {
  Random random(drawn);
  const uint64_t tag = EnvironmentJson::parse(request.body)["tag"];
  switch (random.Below(12)) {
    case 0:
      return ReplyTo(reply, "{\"detail\": \"broken\"}", 500);
    case 1:
      return ReplyTo(reply, "\x01garbage{{{");
    case 2:
      return ReplyTo(reply, "busy", 503);
    case 3:
      return ReplyTo(reply, R"({"reward": null})");
    case 4:
      return ReplyTo(reply, R"({"reward": 0, "mask_sample": true})");
    default:
      ReplyTo(reply,
              request.path == "/verify" ? "{\"reward\": " + std::to_string(tag) + "}" : "{}");
  }
}

ScriptedOpenEnv::Deed OpenEnvScript(uint64_t drawn, const EnvironmentJson& message, int number) {
  Random random(drawn);
  const bool reset = message["type"] == "reset";
  switch (random.Below(14)) {
    case 0:
      return {.text = ScriptedOpenEnv::Error(reset ? "CAPACITY_REACHED" : "EXECUTION_ERROR")};
    case 1:
      return {.text = {}, .close = true};
    case 2:
      return {.text = "\xFF\xFFgarbage", .close = false, .broken = true};
    case 3:
      return {.text = "{\"type\": \"observation\"", .close = true};
    case 4:
      return {.text = random.Below(4) == 0 ? "" : ScriptedOpenEnv::Error("SESSION_ERROR")};
    default:
      // The reward is paid in the second step: what went wrong before it is no zero.
      return {.text = ScriptedOpenEnv::Observation("go", number == 2 ? 7 : 0, number == 2)};
  }
}

void VerifiersScript(uint64_t drawn, const VerifiersRun& run, const Verifiers::Tell& tell) {
  Random random(drawn);
  const std::string trace = "t" + std::to_string(drawn);
  const uint64_t fault = random.Below(14);
  if (fault == 0) return tell("delta", "\xC1garbage");
  if (fault == 1) return tell("what", "");
  if (fault == 2) {
    return tell("reply", WriteMsgpack({{"success", false}, {"error", "SandboxError: died"}}));
  }
  if (fault == 3 && random.Below(4) == 0) return;  // it hangs
  if (Play(run, trace, tell) != 200) {             // it was given up
    return tell("reply", WriteMsgpack({{"success", false}, {"error", "ProviderError"}}));
  }
  if (fault == 4) return tell("reply", WriteMsgpack({{"success", true}, {"error", nullptr}}));
  const double tag = run.task["tag"];
  if (fault != 5) tell("delta", WriteMsgpack(Verifiers::Paid(trace, tag, 1)));
  tell("reply", WriteMsgpack(Verifiers::Done({fault == 6 ? "another" : trace})));
}

// Each episode has one outcome; a reward is one that its environment paid.
TEST_F(EnvironmentFaults, NoneIsEverARewardThatNobodyPaid) {
  const char* more = std::getenv("TIDEMILL_FAULT_EPISODES");
  const uint64_t episodes = more != nullptr ? std::stoul(more) : 450;
  gym_ = std::make_unique<ScriptedGym>(
      [this](const HttpRequest& request, std::unique_ptr<HttpReply> reply) {
        GymScript(++asked_, request, *reply);
      });
  open_env_ = std::make_unique<ScriptedOpenEnv>([this](const EnvironmentJson& message, int number) {
    return OpenEnvScript(++asked_, message, number);
  });
  verifiers_ =
      std::make_unique<Verifiers>([this](const VerifiersRun& run, const Verifiers::Tell& tell) {
        VerifiersScript(++asked_, run, tell);
      });
  const Duration timeout = std::chrono::seconds(3);
  Add("nemo-gym", gym_->url(), timeout);
  Add("openenv", open_env_->url(), timeout);
  Add("verifiers", verifiers_->url(), timeout);
  OpenRunner();
  const char* const standards[] = {"nemo-gym", "openenv", "verifiers"};
  for (uint64_t tag = 1; tag <= episodes; ++tag) StartEpisode(standards[tag % 3], tag);
  std::map<Failure, int> failures;
  std::map<std::string, int> paid;
  for (const auto& [tag, outcome] : Await(episodes)) {
    const std::string standard = standards[tag % 3];
    if (!outcome.status.ok()) {
      ++failures[outcome.failure];
      EXPECT_FALSE(outcome.reward.has_value());
      continue;
    }
    ++paid[standard];
    ASSERT_TRUE(outcome.reward.has_value());
    ASSERT_EQ(outcome.reward->parts_size(), 1);
    const double right = standard == "openenv" ? 7 : static_cast<double>(tag);
    EXPECT_EQ(outcome.reward->parts(0).value(), right) << standard;
    ASSERT_EQ(outcome.branches.size(), 1u);
  }
  EXPECT_EQ(paid.size(), 3u) << "each standard has some that went well";
  for (const Failure kind :
       {Failure::kConnection, Failure::kEnvironment, Failure::kVerifier, Failure::kMasked}) {
    EXPECT_GT(failures[kind], 0) << FailureText(kind);
  }
  EXPECT_EQ(failures[Failure::kCapacity], 0) << "full servers are waited for";
  environments_.reset();
  while (open_env_->open() > 0) std::this_thread::yield();  // no socket is left
}

}  // namespace
}  // namespace tidemill
