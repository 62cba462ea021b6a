// What has to be known about a step's tokens before its weights change.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "learner/objective_config.h"
#include "learner/step_batch.h"
#include "learner/torch/policy_scorer.h"

namespace tidemill {

// [sequence][trained token] each; empty where the objective does not need it.
struct StepScores {
  std::vector<std::vector<float>> proximal;
  std::vector<std::vector<float>> reference;
  std::vector<std::vector<float>> advantages;     // V-trace's
  std::vector<std::vector<float>> value_targets;  // V-trace's
};

struct FirstPassNeeds {
  bool proximal = false;                     // and values, where the scorer has a value head
  const PolicyWeights* reference = nullptr;  // null: none
  bool bfloat16 = false;
};

// Runs the policy and the reference over `parts`, which hold every sequence to be trained on once.
StepScores FirstPass(const ObjectiveConfig& objective, const StepBatch& batch,
                     std::span<const Microbatch> parts, const FirstPassNeeds& needs,
                     PolicyScorer& scorer);

}  // namespace tidemill
