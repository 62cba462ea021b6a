#include "run/make_scorers.h"

namespace tidemill {

Result<RewardParts> MakeReward(const RunConfig& config) {
  const RunConfig::Reward& reward = config.reward;
  RewardParts parts;
  CommandPortOptions port;
  port.limits.time = reward.command_timeout;
  port.limits.output_bytes = size_t{reward.command_output_kb} << 10;
  port.slots = reward.command_slots;
  if (!reward.command.empty()) port.commands["command"] = reward.command;
  if (!reward.review_judge.empty()) port.commands["judge"] = reward.review_judge;
  for (const auto& [name, weight] : reward.weights) {
    if (name == "command" && reward.command.empty()) {
      return Invalid("reward.weights names \"command\", but reward.command is empty");
    }
    ScorerSpec spec;
    spec.name = name;
    spec.weight = weight;
    spec.all_or_nothing = reward.all_or_nothing;
    spec.penalty = reward.lint_penalty;
    spec.version = reward.command_version;
    spec.review_weights = reward.review_weights;
    spec.review_threshold = reward.review_threshold;
    spec.review_cpu_ms = reward.review_cpu_ms;
    spec.review_judge = !reward.review_judge.empty();
    Result<std::unique_ptr<Scorer>> scorer = NewScorer(spec);
    if (!scorer.ok()) return scorer.status().WithContext("reward." + name);
    parts.versions[name] = (*scorer)->version();
    parts.scorers.push_back({std::move(*scorer), weight});
  }
  parts.port = std::make_unique<CommandPort>(std::move(port));
  parts.options.retries = reward.retries;
  parts.options.turn_weight = reward.turn_weight;
  parts.options.turn_discount = reward.turn_discount;
  parts.options.lease_period = config.bus.lease / 3;
  return parts;
}

}  // namespace tidemill
