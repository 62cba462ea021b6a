// A batch as one step uses it: sequences with their advantages, checked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.h"
#include "learner/credit.h"
#include "learner/objective_config.h"
#include "learner/packing.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// An episode is one sequence, or several where it has branches.
struct StepBatch {
  std::vector<TrainSequence> sequences;
  std::vector<std::vector<double>> advantages;    // [sequence][turn]; zeros for V-trace
  std::vector<std::vector<double>> turn_rewards;  // [sequence][turn]
  std::vector<double> rewards;                    // shaped, [episode]
  std::map<std::string, double>
      metrics;  // reward_*, advantage_abs, episodes, response_tokens, lag_*, ..

  // Indices of those with something to train on.
  std::vector<int32_t> Trainable() const;
};

// kInvalid names the trajectory: one without a verdict or purpose to train, or as Flatten and
// AssignCredit say. With `distill`, rewards and teacher each have their weight; where rewards have
// none, tokens that the teacher did not score are left out.
Result<StepBatch> PrepareStep(const v1::Batch& batch, AdvantageKind advantage,
                              const CreditConfig& credit, const FlattenOptions& options,
                              const DistillConfig& distill = {});

// V-trace's advantages and value targets of one sequence's trained tokens, of which `log_ratio` and
// `values` are one each. A turn's reward comes with its last trained token.
VtraceOutput SequenceVtrace(const ObjectiveConfig& config, const TrainSequence& sequence,
                            const std::vector<double>& turn_rewards,
                            std::span<const double> log_ratio, std::span<const double> values);

}  // namespace tidemill
