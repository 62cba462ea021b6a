#include "run/policies.h"

#include <algorithm>

namespace tidemill {
namespace {

constexpr std::string_view kDefaultPolicy = "default";

template <typename T>
void Take(const std::optional<T>& said, T& key) {
  if (said) key = *said;
}

RunConfig ConfigOf(const RunConfig& config, const PolicyTable& table) {
  RunConfig own = config;
  LearnerConfig& learner = own.learner;
  own.model.adapter = table.adapter;
  Take(table.rank, learner.lora_rank);
  Take(table.alpha, learner.lora_alpha);
  Take(table.objective, learner.objective);
  Take(table.options, learner.options);
  Take(table.learning_rate, learner.learning_rate);
  Take(table.warmup_steps, learner.warmup_steps);
  Take(table.groups_per_step, own.rollout.groups_per_step);
  Take(table.max_steps, own.staleness.max_steps);
  Take(table.hard_max_steps, own.staleness.hard_max_steps);
  // Without an adapter it is the base alone.
  if (!table.train && table.adapter.empty()) learner.lora_rank = 0;
  return own;
}

bool IsDefault(const PolicyTable& table) {
  return table.name == kDefaultPolicy;
}

Status CheckTogether(const RunConfig& config, const Binder& binder) {
  const auto wrong = [&](bool is, std::string_view key, std::string_view why) {
    return is ? binder.Error("policy", "cannot be together with " + std::string(key) + ": " +
                                           std::string(why))
              : Ok();
  };
  TM_RETURN_IF_ERROR(wrong(!config.engine.own(),
                           "engine.backend = \"" + config.engine.backend + "\"",
                           "its servers have one policy; use \"own\""));
  TM_RETURN_IF_ERROR(wrong(!config.learner.own(),
                           "learner.backend = \"" + config.learner.backend + "\"",
                           "its ranks train one policy; use "
                           "\"own\""));
  TM_RETURN_IF_ERROR(wrong(config.learner.ranks > 1, "learner.ranks above 1",
                           "several ranks train one policy; use 1"));
  TM_RETURN_IF_ERROR(wrong(config.live.on, "live.on", "sessions train one policy"));
  TM_RETURN_IF_ERROR(wrong(config.live.release, "live.release", "it releases one policy"));
  TM_RETURN_IF_ERROR(wrong(config.memory.only, "memory.only", "it trains nothing"));
  TM_RETURN_IF_ERROR(wrong(config.asks_gateway(),
                           config.agent.used() ? "[agent]" : "[[environment]]",
                           "their episodes are of one policy"));
  TM_RETURN_IF_ERROR(wrong(config.teacher.policy, "teacher.policy",
                           "a teacher of several policies is a model; use teacher.model"));
  return wrong(!config.model.adapter.empty(), "model.adapter",
               "each policy has an adapter of its own; use policy.NAME.adapter");
}

}  // namespace

std::vector<RunPolicy> PoliciesOf(const RunConfig& config) {
  if (config.policies.empty()) return {{.config = config}};
  std::vector<RunPolicy> policies;
  uint32_t number = 0;
  for (const PolicyTable& table : config.policies) {
    RunPolicy policy{.trained = table.train, .config = ConfigOf(config, table)};
    if (!IsDefault(table)) policy.id = PolicyId{++number}, policy.name = table.name;
    policies.push_back(std::move(policy));
  }
  std::sort(policies.begin(), policies.end(),
            [](const RunPolicy& a, const RunPolicy& b) { return a.id < b.id; });
  return policies;
}

PolicyNames PolicyNamesOf(const RunConfig& config) {
  std::vector<std::string> beside;
  for (const PolicyTable& table : config.policies) {
    if (!IsDefault(table)) beside.push_back(table.name);
  }
  return PolicyNames(std::move(beside));
}

RunConfig MainPolicyConfig(const RunConfig& config) {
  for (RunPolicy& policy : PoliciesOf(config)) {
    if (policy.id == PolicyId::kMain) return std::move(policy.config);
  }
  return ConfigOf(config, {.name = std::string(kDefaultPolicy), .train = false});
}

uint64_t RunStepsOf(const RunConfig& config) {
  const std::vector<RunPolicy> policies = PoliciesOf(config);
  const auto trained = std::count_if(policies.begin(), policies.end(),
                                     [](const RunPolicy& policy) { return policy.trained; });
  return config.run.steps * static_cast<uint64_t>(trained);
}

Status CheckPolicies(const RunConfig& config, const Binder& binder) {
  if (config.policies.empty()) return Ok();
  TM_RETURN_IF_ERROR(CheckTogether(config, binder));
  bool any = false;
  for (const RunPolicy& policy : PoliciesOf(config)) {
    const std::string name = policy.name.empty() ? std::string(kDefaultPolicy) : policy.name;
    if (name == "best" || name.starts_with("step-")) {
      return binder.Error("policy", name + " is a name in the folder of checkpoints; use another");
    }
    any = any || policy.trained;
    if (!policy.trained && policy.id != PolicyId::kMain && policy.config.model.adapter.empty()) {
      return binder.Error("policy", name +
                                        " is not trained and has no adapter: the base alone is "
                                        "the policy \"default\" with train = false");
    }
    if (!policy.trained) continue;
    if (policy.config.learner.lora_rank == 0 && policy.config.model.adapter.empty()) {
      return binder.Error("policy", name +
                                        " has no rank; policies of one run are adapters on one "
                                        "base: set policy." +
                                        name + ".rank or learner.lora_rank");
    }
    if (config.run.mode == "async" &&
        policy.config.staleness.hard_max_steps < policy.config.staleness.max_steps) {
      return binder.Error("policy", name +
                                        ".hard_max_steps is less than its max_steps: episodes "
                                        "would be too old when they are used");
    }
  }
  return any ? Ok() : binder.Error("policy", "none of the policies is trained");
}

}  // namespace tidemill
