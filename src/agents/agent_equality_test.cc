// The example agents in boxes against the protocol "compact": the same tasks, seeds and engine, so
// the same ids. TIDEMILL_AGENT_TASKS says how many tasks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "testing/agent_fixture.h"
#include "testing/expression_fixture.h"
#include "testing/test_folders.h"
#include "tools/tool_executor.h"

namespace tidemill {
namespace {

using Ids = std::vector<uint32_t>;

template <typename Repeated>
Ids IdsOf(const Repeated& ids) {
  return Ids(ids.begin(), ids.end());
}

void ExpectSame(const std::string& name, const v1::Trajectory& ours, const v1::Trajectory& theirs) {
  EXPECT_EQ(IdsOf(ours.prompt_ids()), IdsOf(theirs.prompt_ids())) << name;
  ASSERT_EQ(ours.turns_size(), theirs.turns_size()) << name;
  for (int t = 0; t < ours.turns_size(); ++t) {
    EXPECT_EQ(IdsOf(ours.turns(t).ids()), IdsOf(theirs.turns(t).ids())) << name;
    if (t + 1 == ours.turns_size()) break;
    EXPECT_EQ(IdsOf(ours.turns(t).observation_ids()), IdsOf(theirs.turns(t).observation_ids()))
        << name;
  }
}

// The same leases by a program of examples/.
std::map<std::string, v1::Trajectory> RollPrograms(const std::vector<v1::GroupLease>& leases,
                                                   const std::vector<std::string>& command,
                                                   const ServedPolicy& policy, Duration limit) {
  const RealClock clock;
  const auto channel = NewLocalWeightChannel();
  const auto protocol = NewCompactProtocol(policy.tokenizer).value();
  const auto engine = NewExpressionEngine(policy, *channel, clock);
  EpisodeRecorder recorder(policy, clock, 16, std::make_unique<PlainRecorder>(policy));
  LoopRunner loops;
  loops.Add(recorder);
  TM_CHECK(loops.Start().ok());
  GatewayOptions gateway_options;
  gateway_options.plan.context_tokens = kExpressionContext;
  Metrics metrics;
  auto gateway = Gateway::Start(gateway_options, policy, *engine, recorder, clock, metrics);
  TM_CHECK(gateway.ok());
  AgentRunnerOptions options;
  options.program.command = command;
  options.program.mounts = {{SourceDir() + "/examples", "/agent"}};
  options.program.limits.wall = options.program.limits.cpu = std::chrono::seconds(60);
  options.program.model = "policy";
  options.slots = 4;
  auto agents = AgentRunner::Create(options, **gateway, recorder, nullptr, clock);
  TM_CHECK(agents.ok(), agents.ok() ? "" : agents.status().message());
  return RollOut(leases, *protocol, *engine, agents->get(), nullptr, clock, limit);
}

TEST(AgentEquality, TheExampleAgentsDrawWhatTheCompactProtocolDraws) {
  const char* asked = getenv("TIDEMILL_AGENT_TASKS");
  const uint64_t tasks = asked != nullptr ? std::stoull(asked) : 12;
  const Duration limit = std::chrono::seconds(60 + 2 * tasks);
  const TemporaryDirectory dir;
  const RealClock clock;
  ASSERT_TRUE(WriteFamilyModel("cfunc", {}, dir.path()).ok());
  const ServedPolicy policy = ReadServedPolicy(dir.path()).value();
  ASSERT_TRUE(policy.chat) << policy.no_chat_reason;
  const auto channel = NewLocalWeightChannel();
  const auto protocol = NewCompactProtocol(policy.tokenizer).value();
  const std::vector<v1::GroupLease> leases = ExpressionLeases(tasks);

  auto tools = ToolExecutor::Create({}, nullptr, clock);
  ASSERT_TRUE(tools.ok()) << tools.status().ToString();
  const auto own_engine = NewExpressionEngine(policy, *channel, clock);
  const auto compact = RollOut(leases, *protocol, *own_engine, nullptr, tools->get(), clock, limit);

  ASSERT_EQ(compact.size(), 2 * tasks);
  size_t turns = 0;
  for (const auto& [name, theirs] : compact) turns += static_cast<size_t>(theirs.turns_size());
  EXPECT_GT(turns, compact.size());  // some went on after a failure
  std::vector<std::vector<std::string>> commands = {{"/usr/bin/python3", "/agent/agent.py"}};
  if (access("/usr/bin/curl", X_OK) == 0) commands.push_back({"/bin/sh", "/agent/agent.sh"});
  for (const auto& command : commands) {
    const auto programs = RollPrograms(leases, command, policy, limit);
    ASSERT_EQ(programs.size(), compact.size());
    for (const auto& [name, theirs] : compact) {
      ASSERT_EQ(programs.count(name), 1u) << name;
      ExpectSame(command[1] + " " + name, programs.at(name), theirs);
    }
  }
}

}  // namespace
}  // namespace tidemill
