// Figures of a step's tokens that are needed before its weights change.
#pragma once

#include <vector>

#include "learner/minibatch.h"
#include "learner/objective_config.h"
#include "learner/step_batch.h"
#include "learner/torch/policy_scorer.h"
#include "learner/torch/rank_group.h"

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
  RankGroup* ranks = nullptr;  // null: this process computes all parts
};

// Runs the policy and the reference over `all`, which holds every sequence to be trained on once.
// With ranks each computes its parts, and all have everything afterwards; fails as RankGroup::Sum
// does.
Result<StepScores> FirstPass(const ObjectiveConfig& objective, const StepBatch& batch,
                             const Minibatch& all, const FirstPassNeeds& needs,
                             PolicyScorer& scorer);

}  // namespace tidemill
