// From the config to the options of every loop: the one place where the two meet, a function a
// loop.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/message_check.h"
#include "core/status.h"
#include "judge/judge_loop.h"
#include "learner/learner_loop.h"
#include "learner/objective_config.h"
#include "memory/memory_loop.h"
#include "replay/replay_loop.h"
#include "reward/reward_loop.h"
#include "rollout/dispatcher.h"
#include "rollout/protocol.h"
#include "rollout/rollout_loop.h"
#include "run/policies.h"
#include "run/run_config.h"
#include "skills/skill_loop.h"
#include "store/run_db.h"
#include "teacher/teacher_loop.h"
#include "tools/tool_loop.h"
#include "tools/tool_options.h"

namespace tidemill {

// Where a policy begins.
struct PolicyStart {
  PolicyId id = PolicyId::kMain;
  uint64_t step = 0;     // its own
  uint64_t version = 0;  // published last
};

// What loops begin with besides the config.
struct RunStart {
  std::string worker = "local";            // the process's name on the bus
  bool alone = true;                       // every role is in this process
  bool train = true;                       // false: only the evaluations "before"
  std::string eval_prefix = {};            // put before the names of evaluations
  uint64_t step = 0;                       // steps done, of all policies
  uint64_t version = 1;                    // of the default policy, published last
  std::vector<PolicyStart> policies = {};  // besides, of those that the config names
  std::string checkpoints = {};            // their folder; empty: none are written
  int32_t max_context = 2048;              // the engine's
  Metrics* metrics = nullptr;              // may be null; must outlive the loops
  // What tokens are made from: the run's own in the learner's process, elsewhere any.
  std::string secret = {};
  uint64_t vocabulary = INT32_MAX;  // token ids are below it
  uint64_t context = 1u << 24;      // tokens an episode can have, by model and config
  double live_tenant_share = 1;     // of a batch's sessions that may be of one tenant
  ResumeState resumed = {};
  // What token ids say, for judges of turns; empty: none is configured.
  std::function<std::string(std::vector<int32_t>)> turn_text = {};
};

// Of a policy that the config names. Without tables: of the default policy.
PolicyStart StartOf(const RunStart& start, PolicyId policy);
// Where its checkpoints lie; `checkpoints`: RunStart::checkpoints.
std::string CheckpointsOf(const RunPolicy& policy, const std::string& checkpoints);

struct LoopOptions {
  DispatcherOptions dispatcher;
  ReplayOptions replay;
  LearnerOptions learner;
  RolloutOptions rollout;
  ToolLoopOptions tools;
  RewardOptions reward;
  JudgeOptions judge;
  TeacherOptions teacher;
  MemoryOptions memory;
  SkillOptions skills;
};

// What of the counts in messages the config bounds.
MessageLimits MessageLimitsFrom(const RunConfig& config);

// kInvalid names the key.
Result<LoopOptions> LoopOptionsFrom(const RunConfig& config, const RunStart& start);

// Of the episodes of a process.
RolloutOptions RolloutOptionsFrom(const RunConfig& config, const RunStart& start);

// The scorers that reward.weights names, then those that tasks may name. kInvalid names the key.
Result<std::vector<WeightedScorer>> ScorersFrom(const RunConfig& config);

// Runs the function `f` of a C text on the verifiers' interpreter, which can do nothing but
// compute. Nothing: it cannot be run, or has no result.
std::optional<int64_t> TraceFunction(const std::string& source, std::span<const int64_t> inputs);

// The tools the config declares.
std::vector<CommandTool> CommandToolsFrom(const RunConfig& config);
// What the model is told: the built-in tools and those of the config. kInvalid names a tool that
// cannot run in the background as the config says.
Result<ProtocolOptions> ProtocolOptionsFrom(const RunConfig& config);
// Limits and commands of [tools].
ToolOptions ToolOptionsFrom(const RunConfig& config);

// What the learner minimises. kInvalid names the key, also where the objective needs a teacher that
// there is not, or the other way round.
Result<ObjectiveConfig> ObjectiveFrom(const RunConfig& config);

// Whether the objectives of the policies do. kInvalid: some do, some do not.
Result<bool> NeedsTeacher(const RunConfig& config);

// kInvalid names a task that wants a tool nobody has.
Status CheckTools(const std::vector<v1::Task>& tasks, const ProtocolOptions& options);
// kInvalid names a task whose own weights name a scorer that this config cannot make.
Status CheckScorers(const std::vector<v1::Task>& tasks, const RunConfig& config);

}  // namespace tidemill
