#include "run/plan_run.h"

#include <algorithm>
#include <charconv>

#include "learner/objective_config.h"
#include "run/loop_options.h"
#include "run/policies.h"

namespace tidemill {
namespace {

// The rank of an adapter that is there already stands in its own files; most have this one.
int64_t RankOf(const RunConfig& config) {
  constexpr int64_t kUsualRank = 16;
  return config.learner.lora_rank == 0 && !config.model.adapter.empty() ? kUsualRank
                                                                        : config.learner.lora_rank;
}

}  // namespace

Result<PlanInput> PlanInputFrom(const RunConfig& config, const ModelConfig& model, bool gpu) {
  const LearnerConfig& learner = config.learner;
  PlanInput input;
  input.model = model;
  input.gpu = gpu;
  input.lora_rank = config.policies.empty() ? RankOf(config) : 0;
  input.lora_experts = learner.lora_experts;
  input.reference = config.live.on && config.live.kl_coefficient > 0;
  for (const RunPolicy& policy : PoliciesOf(config)) {
    if (policy.trained) {
      TM_ASSIGN_OR_RETURN(const ObjectiveConfig objective, ObjectiveFrom(policy.config));
      input.reference = input.reference || objective.NeedsReference();
    }
    if (config.policies.empty()) continue;
    input.policies.push_back(
        {policy.name.empty() ? "default" : policy.name, RankOf(policy.config), policy.trained});
  }
  // Activations and logits are those of one step, of whichever policy: the largest counts.
  for (const PlanPolicy& policy : input.policies) {
    if (policy.trained) input.lora_rank = std::max(input.lora_rank, policy.lora_rank);
  }
  input.policy_teaches = config.teacher.policy;
  input.keys = config.memory.on && config.memory.retrieval == "hidden";
  input.updates = uint64_t{learner.minibatches} * learner.epochs;
  input.token_budget = learner.token_budget;
  input.recompute = learner.recompute;
  // The other ranks decide for themselves, and all must have the same.
  if (learner.moments != "auto" || learner.ranks > 1) {
    input.block_moments = learner.moments == "int8";
  }
  if (learner.optimizer_state != "auto" || learner.ranks > 1) {
    input.state_on_host = learner.optimizer_state == "host";
  }
  input.cache_bytes = uint64_t{config.rollout.cache_mb} << 20;
  input.max_context = config.rollout.max_context;
  input.prefill_chunk = config.rollout.prefill_chunk;
  input.versions = config.engine.versions;
  input.int8_weights = config.engine.weights == "int8";
  if (!config.teacher.model.empty()) {
    TM_ASSIGN_OR_RETURN(const ModelConfig teacher, ReadModelConfig(config.teacher.model));
    input.teacher_bytes = static_cast<uint64_t>(teacher.ParameterCount()) * (gpu ? 2 : 4);
  }
  return input;
}

std::string PlanRefusal(const MemoryPlan& plan) {
  std::string text = "the run needs " + BytesText(plan.total_bytes) + " of memory, there are " +
                     BytesText(plan.memory_bytes) + " (";
  std::vector<PlanRow> rows = plan.rows;
  std::sort(rows.begin(), rows.end(),
            [](const PlanRow& a, const PlanRow& b) { return a.bytes > b.bytes; });
  rows.resize(std::min<size_t>(rows.size(), 3));
  for (size_t i = 0; i < rows.size(); ++i) {
    text +=
        (i > 0 ? ", " : "") + rows[i].part + ": " + rows[i].what + " " + BytesText(rows[i].bytes);
  }
  text += "; see `tidemill plan`)";
  if (!plan.fits_host()) {
    text += "; the optimizer's state needs " + BytesText(plan.host_bytes) +
            " of the host, which has " + BytesText(plan.host_memory_bytes) +
            " (learner.optimizer_state)";
  }
  if (plan.would_fit.empty()) return text + "; no smaller settings of this model fit";
  text += "; would fit: ";
  for (size_t i = 0; i < plan.would_fit.size(); ++i) {
    text += (i > 0 ? "; or " : "") + plan.would_fit[i].settings + " (" +
            BytesText(plan.would_fit[i].total_bytes) + ")";
  }
  return text;
}

Result<uint64_t> ParseMemory(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  const double most = 1e9;
  if (error == std::errc() && number > 0 && number < most) {
    if (unit == "GB" || unit == "G") return static_cast<uint64_t>(number * 0.99 * (1 << 30));
    if (unit == "GiB") return static_cast<uint64_t>(number * (1 << 30));
    if (unit == "MiB") return static_cast<uint64_t>(number * (1 << 20));
  }
  return Invalid("\"" + text + "\" is no size of memory; write 80GB, 79.2GiB or 81100MiB");
}

}  // namespace tidemill
