#include "run/loop_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "core/random.h"
#include "prover/prover.h"
#include "run/background_options.h"
#include "run/resume_parts.h"
#include "run/teams.h"
#include "store/store_thread.h"
#include "tools/mcp_offer.h"
#include "tools/staying_tool.h"

namespace tidemill {
namespace {

// How often leases are prolonged.
Duration LeasePeriod(const RunConfig& config) {
  return config.bus.lease / 3;
}

v1::Sampling SamplingAt(const RunConfig& config, double temperature) {
  v1::Sampling sampling;
  sampling.set_temperature(temperature);
  sampling.set_max_turn_tokens(config.rollout.max_turn_tokens);
  if (config.rollout.constrains_calls()) sampling.set_constraint(config.rollout.constrain);
  return sampling;
}

v1::Sampling TrainingSampling(const RunConfig& config) {
  v1::Sampling sampling = SamplingAt(config, config.rollout.temperature);
  sampling.set_top_p(config.rollout.top_p);
  sampling.set_top_k(config.rollout.top_k);
  sampling.set_min_p(config.rollout.min_p);
  return sampling;
}

// The three modes are one machine with other settings of gate, barrier and swap.
int64_t StepsAhead(const RunConfig& config) {
  if (config.run.mode == "sync") return 0;
  if (config.run.mode == "one-step") return 1;
  return config.staleness.max_steps;
}

std::vector<EvalPlan> EvalPlans(const RunConfig& config, const RunPolicy& policy,
                                const std::string& name) {
  EvalPlan plan;
  // Those of a team are of all of its policies.
  const bool own = !policy.name.empty() && !config.team.used();
  plan.name = own ? policy.name + ":" + name : name;
  plan.policy = policy.id;
  plan.samples = config.eval.samples;
  plan.max_turns = config.eval.max_turns > 0 ? config.eval.max_turns : config.rollout.max_turns;
  plan.sampling = SamplingAt(config, config.eval.temperature);
  std::vector<EvalPlan> plans = {plan};
  if (config.eval.greedy && config.eval.temperature > 0) {
    EvalPlan greedy = plan;
    greedy.name += "-greedy";
    greedy.samples = 1;
    greedy.sampling.set_temperature(0);
    plans.push_back(greedy);
  }
  if (config.eval.also_max_turns > 0 && config.eval.also_max_turns != plan.max_turns) {
    EvalPlan also = plan;
    also.max_turns = config.eval.also_max_turns;
    also.name += "-turns-" + std::to_string(also.max_turns);
    plans.push_back(also);
  }
  return plans;
}

GateOptions GateOf(const RunConfig& config) {
  return {.max_in_flight = config.rollout.max_in_flight,
          .batch_episodes = config.batch_episodes(),
          .staleness_max_steps = StepsAhead(config),
          .uses_per_episode = UsesPaid(config.replay)};
}

DispatcherOptions DispatcherOptionsFrom(const RunConfig& config, const RunStart& start) {
  auto options = OptionsWith<DispatcherOptions>(config.rollout);
  options.policies = PolicyNamesOf(config);
  options.team = config.team.used();
  options.difficulty_floor = config.tasks.floor;
  options.seed = config.run.seed;
  options.sampling = TrainingSampling(config);
  options.train = start.train;
  if (config.memory.on && start.train) options.groups_topic = kMemoryGroupsTopic;
  if (config.skills.on && start.train) options.groups_topic = kSkillsGroupsTopic;
  options.eval_in_flight = std::max(config.rollout.max_in_flight, config.eval.samples);
  const auto add = [](std::vector<EvalPlan>& to, const std::vector<EvalPlan>& plans) {
    to.insert(to.end(), plans.begin(), plans.end());
  };
  options.other_steps_done = start.step;
  for (const RunPolicy& policy : PoliciesOf(config)) {
    // Of a team once, counted in the steps of its first trained policy.
    const bool evaluates = !options.team || (policy.trained && options.trained.empty());
    if (config.eval.before && start.step == 0 && evaluates) {
      add(options.eval_before, EvalPlans(config, policy, start.eval_prefix + "before"));
    }
    if (!policy.trained) continue;
    const uint64_t own = StartOf(start, policy.id).step;
    options.trained.push_back({.id = policy.id,
                               .gate = GateOf(policy.config),
                               .steps_done = own,
                               .max_steps = config.run.steps});
    options.other_steps_done -= std::min(own, options.other_steps_done);
    if (!evaluates) continue;
    if (config.eval.after) {
      add(options.eval_after, EvalPlans(config, policy, start.eval_prefix + "after"));
    }
    options.eval_during.push_back(EvalPlans(config, policy, start.eval_prefix + "during").front());
  }
  options.eval_every_steps = config.eval.every_steps;
  options.secret = start.secret;
  options.limits = MessageLimitsFrom(config);
  options.group_patience = config.bus.group_patience;
  AddResumed(start.resumed, options);
  return options;
}

// Of the run so far, and those that its policies begin with.
PolicyVersions VersionsFrom(const RunConfig& config, const RunStart& start) {
  const PolicyNames names = PolicyNamesOf(config);
  PolicyVersions versions;
  for (const ResumeState::Version& one : start.resumed.versions) {
    // One of a policy that the run has not any more is nobody's.
    if (const auto policy = names.Find(one.policy); policy.ok()) {
      versions.Published(*policy, one.version, one.policy_step);
    }
  }
  versions.Published(PolicyId::kMain, start.version, StartOf(start, PolicyId::kMain).step);
  for (const PolicyStart& policy : start.policies) {
    versions.Published(policy.id, policy.version, policy.step);
  }
  return versions;
}

Result<ReplayOptions> ReplayOptionsFrom(const RunConfig& config, const RunStart& start) {
  auto options = OptionsWith<ReplayOptions>(config.replay);
  options.worker = start.worker;
  options.staleness = config.staleness;
  options.policies = PolicyNamesOf(config);
  for (const RunPolicy& policy : PoliciesOf(config)) {
    options.staleness_of[policy.id] = policy.config.staleness;
  }
  options.roles = TeamRoles(config);
  for (const RunPolicy& policy : PoliciesOf(config)) {
    if (!policy.trained) options.frozen.insert(policy.id);
  }
  options.seed = MixHash(config.run.seed, start.step);
  TM_RETURN_IF_ERROR(GroupBuffer::Make(options, options.seed).status().WithContext("replay"));
  options.live_tenant_share = start.live_tenant_share;
  // Where nothing is trained, a group that teaches nothing still counts as a step's work.
  if (config.memory.only) options.drop_zero_variance = false;
  options.drop_untrainable = !config.memory.only;
  options.tells_memory = config.memory.on && start.train;
  options.tells_skills = config.skills.on && start.train;
  TM_ASSIGN_OR_RETURN(const bool teacher, NeedsTeacher(config));
  if (teacher && !config.memory.only) {
    options.teacher = start.train;
    if (config.teacher.hints == "errors") options.hints = TeacherHints::kErrors;
    if (config.teacher.hints == "judge") options.hints = TeacherHints::kJudge;
    if (config.teacher.hints == "judge_strongest") options.hints = TeacherHints::kJudgeStrongest;
    options.drop_zero_variance = false;  // the teacher tells the tokens of equal rewards apart
  }
  options.max_turn_tokens = config.rollout.max_turn_tokens;
  options.store_capacity = kStoreClientCapacity;
  options.lease_period = LeasePeriod(config);
  options.score_patience = config.bus.patience;
  options.empty_topic = start.alone;
  options.versions = VersionsFrom(config, start);
  options.secret = start.secret;
  options.limits = MessageLimitsFrom(config);
  options.limits.vocabulary = start.vocabulary;
  options.limits.tokens = start.context + config.rollout.max_turn_tokens;
  TM_ASSIGN_OR_RETURN(const std::vector<WeightedScorer> scorers, ScorersFrom(config));
  for (const WeightedScorer& one : scorers) {
    options.scorer_versions[std::string(one.scorer->name())] = one.scorer->version();
  }
  for (const auto& [scorer, version] : start.resumed.scorer_versions) {
    uint32_t& known = options.scorer_versions[scorer];
    known = std::max(known, version);
  }
  const bool turns =
      std::any_of(config.reward.judges.begin(), config.reward.judges.end(), [](const auto& judge) {
        return judge.reward && (judge.task == "next_state" || judge.task == "process");
      });
  if (turns) options.turn_text = start.turn_text;
  for (const JudgeConfig& judge : config.reward.judges) {
    if (judge.reward && judge.task == "pairwise")
      options.compared_with = std::max(options.compared_with, judge.pairs);
  }
  return options;
}

LearnerOptions LearnerOptionsFrom(const RunConfig& config, const RunStart& start) {
  auto options = OptionsWith<LearnerOptions>(config.learner);
  options.worker = start.worker;
  options.metrics = start.metrics;
  options.policies = PolicyNamesOf(config);
  options.max_steps = config.run.steps;
  options.prefetch = config.run.mode == "async";
  for (const RunPolicy& policy : PoliciesOf(config)) {
    if (!policy.trained) continue;
    const PolicyStart begin = StartOf(start, policy.id);
    LearnedPolicy learned{.id = policy.id,
                          .batch_episodes = policy.config.batch_episodes(),
                          .live_episodes = config.live_episodes(),
                          .steps_done = begin.step,
                          .version = begin.version};
    if (!config.memory.only) learned.checkpoint_folder = CheckpointsOf(policy, start.checkpoints);
    options.trained.push_back(std::move(learned));
  }
  if (config.live.on && config.live.release) options.behind_max = config.staleness.max_steps;
  return options;
}

// Answers of programs that are asked outside of a box, or live in one, depend on anything.
Result<ToolLoopOptions> ToolLoopOptionsFrom(const RunConfig& config, const RunStart& start) {
  auto options = OptionsWith<ToolLoopOptions>(config.tools);
  options.worker = start.worker;
  options.lease_period = LeasePeriod(config);
  options.limits = MessageLimitsFrom(config);
  for (const CommandConfig& tool : config.tools.command) {
    if (tool.stays) options.asked_tools.insert(tool.name);
  }
  TM_ASSIGN_OR_RETURN(const std::vector<OfferedMcpTool> offered, OfferedMcpTools(config.tools));
  for (const OfferedMcpTool& tool : offered) options.asked_tools.insert(tool.shown.name);
  return options;
}

RewardOptions RewardOptionsFrom(const RunConfig& config, const RunStart& start) {
  auto options = OptionsWith<RewardOptions>(config.reward);
  options.worker = start.worker;
  options.metrics = start.metrics;
  options.seed = config.run.seed;
  options.lease_period = LeasePeriod(config);
  // Replay waits for the verdict as long as `patience`: a grading that was lost is asked for again
  // before that.
  options.call_patience = config.bus.patience / 2;
  options.secret = start.secret;
  options.limits = MessageLimitsFrom(config);
  return options;
}

JudgeOptions JudgeOptionsFrom(const RunConfig& config, const RunStart& start) {
  JudgeOptions options;
  options.judges = config.reward.judges;
  options.lease_period = LeasePeriod(config);
  options.seed = config.run.seed;
  options.metrics = start.metrics;
  options.limits = MessageLimitsFrom(config);
  options.tracer = TraceFunction;
  return options;
}

TeacherOptions TeacherOptionsFrom(const RunConfig& config, const RunStart& start) {
  auto options = OptionsWith<TeacherOptions>(config.teacher);
  options.lease_period = LeasePeriod(config);
  options.metrics = start.metrics;
  options.limits = MessageLimitsFrom(config);
  options.limits.vocabulary = start.vocabulary;
  options.limits.tokens = start.context + config.rollout.max_turn_tokens;
  return options;
}

MemoryOptions MemoryOptionsFrom(const RunConfig& config) {
  auto options = OptionsWith<MemoryOptions>(config.memory);
  options.lease_period = LeasePeriod(config);
  options.limits = MessageLimitsFrom(config);
  // The turns of a session are its members.
  if (config.live.on) options.limits.members = MessageLimits().members;
  return options;
}

SkillOptions SkillOptionsFrom(const RunConfig& config) {
  auto options = OptionsWith<SkillOptions>(config.skills);
  options.redact = config.live.redact;
  options.files = config.agent.used();
  options.to_memory = config.memory.on;
  options.seed = MixHash(config.run.seed, StableHash("skills"));
  options.limits = MessageLimitsFrom(config);
  return options;
}

CommandTool CommandToolFrom(const CommandConfig& keys) {
  CommandTool tool;
  tool.name = keys.name;
  tool.description = keys.description;
  tool.command = keys.command;
  tool.stays = keys.stays;
  tool.parameters = keys.parameters;
  tool.files = keys.files;
  if (keys.parser == "diagnostics") tool.parser = CommandTool::Parser::kDiagnostics;
  if (keys.parser == "tests") tool.parser = CommandTool::Parser::kTests;
  tool.changes = keys.changes;
  tool.limits.set_wall_ms(keys.wall_ms);
  tool.limits.set_cpu_ms(keys.cpu_ms);
  tool.limits.set_memory_mb(keys.memory_mb);
  tool.limits.set_processes(keys.processes);
  tool.limits.set_output_kb(keys.output_kb);
  tool.limits.set_disk_mb(keys.disk_mb);
  return tool;
}

ToolDescription Describe(const CommandTool& tool) {
  if (tool.stays && !tool.parameters.empty()) {
    return {tool.name, tool.description, tool.parameters};
  }
  nlohmann::ordered_json schema = {{"type", "object"},
                                   {"properties", nlohmann::ordered_json::object()}};
  for (const std::string& argument : tool.Arguments()) {
    schema["properties"][argument] = {{"type", "string"}};
    schema["required"].push_back(argument);
  }
  return {tool.name, tool.description, schema.dump()};
}

}  // namespace

RolloutOptions RolloutOptionsFrom(const RunConfig& config, const RunStart& start) {
  RolloutOptions options;
  options.worker = start.worker;
  options.policies = PolicyNamesOf(config);
  options.team = TeamPlanFrom(config);
  options.max_episodes = config.rollout.max_in_flight * 2;
  options.max_context = start.max_context;
  options.limits = OptionsWith<EpisodeLimits>(config.rollout);
  for (const CommandConfig& keys : config.tools.command) {
    if (!keys.changes) options.limits.reading_tools.push_back(keys.name);
  }
  SetBackground(config, options.limits);
  options.lease_period = LeasePeriod(config);
  options.call_patience = config.bus.patience;
  options.secret = start.secret;
  options.messages = MessageLimitsFrom(config);
  return options;
}

std::optional<int64_t> TraceFunction(const std::string& source, std::span<const int64_t> inputs) {
  constexpr uint64_t kStepsMax = 1'000'000;
  auto function = InterpretedC::Read(source, "f");
  return function.ok() ? function->Call(inputs, kStepsMax) : std::nullopt;
}

MessageLimits MessageLimitsFrom(const RunConfig& config) {
  MessageLimits limits;
  limits.members = std::max({config.rollout.group_size, config.eval.samples, 1u});
  limits.turns =
      std::max({config.rollout.max_turns, config.eval.max_turns, config.eval.also_max_turns, 1u});
  // A turn that a result cut short is none of them, and there are no more of these.
  if (config.rollout.delivers_now()) limits.turns *= 2;
  if (const auto team = TeamPlanFrom(config)) limits.turns *= team->visits();
  return limits;
}

Result<ObjectiveConfig> ObjectiveFrom(const RunConfig& config) {
  TM_ASSIGN_OR_RETURN(ObjectiveConfig objective,
                      ParseObjective(config.learner.objective, config.learner.options));
  if (objective.NeedsTeacher() && !config.teacher.used()) {
    return Invalid(
        "teacher.model: is missing, but learner.objective or learner.options ask for "
        "distillation; or set teacher.policy or teacher.endpoint");
  }
  if (config.teacher.used() && !objective.NeedsTeacher()) {
    return Invalid("teacher: the objective " + config.learner.objective +
                   " uses no teacher; set learner.objective = \"distill\", or "
                   "learner.options = [\"distill_coefficient=0.1\"] for a mix with rewards");
  }
  if (config.live.on && objective.distill.reward == 0) {
    return Invalid(
        "learner.objective: sessions (live.on) have no teacher; give rewards a part "
        "with learner.options = [\"reward_coefficient=1\"]");
  }
  return objective;
}

PolicyStart StartOf(const RunStart& start, PolicyId policy) {
  for (const PolicyStart& one : start.policies) {
    if (one.id == policy) return one;
  }
  // Where the config names policies, the default one is among them or takes no steps.
  return {policy, start.policies.empty() ? start.step : 0, start.version};
}

std::string CheckpointsOf(const RunPolicy& policy, const std::string& checkpoints) {
  return policy.name.empty() || checkpoints.empty() ? checkpoints : checkpoints + "/" + policy.name;
}

Result<bool> NeedsTeacher(const RunConfig& config) {
  std::optional<bool> needs;
  for (const RunPolicy& policy : PoliciesOf(config)) {
    if (!policy.trained) continue;
    TM_ASSIGN_OR_RETURN(const ObjectiveConfig objective, ObjectiveFrom(policy.config));
    if (needs.value_or(objective.NeedsTeacher()) != objective.NeedsTeacher()) {
      return Invalid("policy." + policy.name + ".objective: " + policy.config.learner.objective +
                     " and the objective of another policy: one needs a teacher, one does not");
    }
    needs = objective.NeedsTeacher();
  }
  return needs.value_or(false);
}

Result<LoopOptions> LoopOptionsFrom(const RunConfig& config, const RunStart& start) {
  LoopOptions options;
  options.dispatcher = DispatcherOptionsFrom(config, start);
  TM_ASSIGN_OR_RETURN(options.replay, ReplayOptionsFrom(config, start));
  options.learner = LearnerOptionsFrom(config, start);
  options.rollout = RolloutOptionsFrom(config, start);
  TM_ASSIGN_OR_RETURN(options.tools, ToolLoopOptionsFrom(config, start));
  options.reward = RewardOptionsFrom(config, start);
  options.judge = JudgeOptionsFrom(config, start);
  options.teacher = TeacherOptionsFrom(config, start);
  options.memory = MemoryOptionsFrom(config);
  options.skills = SkillOptionsFrom(config);
  return options;
}

Result<std::vector<WeightedScorer>> ScorersFrom(const RunConfig& config) {
  std::vector<WeightedScorer> scorers;
  for (const auto& [name, weight] : config.reward.weights) {
    Result<std::unique_ptr<Scorer>> scorer = NewScorer(name, config.reward);
    if (!scorer.ok()) return scorer.status().WithContext("reward." + name);
    scorers.push_back({std::move(*scorer), weight});
  }
  // The others are there for tasks with weights of their own.
  for (const ScorerRow& row : Scorers()) {
    if (config.reward.weights.count(std::string(row.name)) != 0) continue;
    if (row.name == "command" && config.reward.command.empty()) continue;
    Result<std::unique_ptr<Scorer>> scorer = row.make(config.reward);
    if (scorer.ok()) scorers.push_back({std::move(*scorer), 0, /*by_default=*/false});
  }
  return scorers;
}

std::vector<CommandTool> CommandToolsFrom(const RunConfig& config) {
  std::vector<CommandTool> tools;
  for (const CommandConfig& keys : config.tools.command) {
    tools.push_back(CommandToolFrom(keys));
  }
  return tools;
}

ToolOptions ToolOptionsFrom(const RunConfig& config) {
  ToolOptions options;
  options.limits.wall = milliseconds(config.tools.wall_ms);
  options.limits.cpu = milliseconds(config.tools.cpu_ms);
  options.limits.memory_bytes = uint64_t{config.tools.memory_mb} << 20;
  options.limits.processes = config.tools.processes;
  options.limits.output_bytes = uint64_t{config.tools.output_kb} << 10;
  options.limits.disk_bytes = uint64_t{config.tools.disk_mb} << 20;
  options.commands = CommandToolsFrom(config);
  return options;
}

Result<ProtocolOptions> ProtocolOptionsFrom(const RunConfig& config) {
  ProtocolOptions options;
  options.system_prompt = config.model.system_prompt;
  options.model_dir = config.model.path;
  options.tool_format = config.gateway.tool_format;
  options.constrain_calls = config.rollout.constrains_calls();
  for (const CommandTool& tool : CommandToolsFrom(config)) {
    TM_RETURN_IF_ERROR(CheckStaying(tool).WithContext("tool \"" + tool.name + "\""));
    options.tools.push_back(Describe(tool));
  }
  TM_ASSIGN_OR_RETURN(const std::vector<OfferedMcpTool> offered, OfferedMcpTools(config.tools));
  for (const OfferedMcpTool& tool : offered) {
    options.tools.push_back({tool.shown.name, tool.shown.description, tool.shown.parameters_json});
  }
  TM_RETURN_IF_ERROR(OfferBackground(config, options.tools));
  return options;
}

Status CheckTools(const std::vector<v1::Task>& tasks, const ProtocolOptions& options) {
  for (const v1::Task& task : tasks) {
    for (const std::string& wanted : task.tools()) {
      const bool known = std::any_of(options.tools.begin(), options.tools.end(),
                                     [&](const ToolDescription& t) { return t.name == wanted; });
      if (known) continue;
      std::string names;
      for (const ToolDescription& tool : options.tools) names += " " + tool.name;
      return Invalid("task " + task.id() + " requires the tool \"" + wanted +
                     "\"; available tools:" + names);
    }
  }
  return Ok();
}

Status CheckScorers(const std::vector<v1::Task>& tasks, const RunConfig& config) {
  TM_ASSIGN_OR_RETURN(const std::vector<WeightedScorer> scorers, ScorersFrom(config));
  for (const v1::Task& task : tasks) {
    for (const v1::ScorerWeight& weight : task.weights()) {
      const bool known = std::any_of(
          scorers.begin(), scorers.end(),
          [&](const WeightedScorer& one) { return one.scorer->name() == weight.scorer(); });
      if (known) continue;
      if (weight.scorer() == "command") {
        return Invalid("task " + task.id() + " has a weight for \"command\": set reward.command");
      }
      TM_RETURN_IF_ERROR(
          NewScorer(weight.scorer(), config.reward).status().WithContext("task " + task.id()));
    }
  }
  return Ok();
}

}  // namespace tidemill
