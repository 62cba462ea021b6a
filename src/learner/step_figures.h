// What a step came to, and its metrics, whoever computed it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "learner/objective_config.h"
#include "learner/step_batch.h"

namespace tidemill {

// Sums over the tokens that count, to be added up over microbatches and divided by `tokens`.
struct ObjectiveSums {
  double tokens = 0;
  double ratio = 0;        // exp(c - p) or the sequence's
  double clipped = 0;      // tokens whose gradient the clipping took away
  double weight = 0;       // of the correction
  double weight_zero = 0;  // tokens the correction took out
  double policy_kl = 0;    // k3 of p against c: how far the step has gone
  double reference_kl = 0;
  double entropy = 0;
  double value_error = 0;        // squared
  double balance = 0;            // loss of experts' balance, of each update
  double experts_given = 0;      // choices of experts that were recorded
  double experts_differing = 0;  // of these, experts that the learner's routers do not choose

  void Add(const ObjectiveSums& other);
  // "ratio", "clip_fraction", "correction", "correction_masked", "policy_kl" and, where they apply,
  // "kl", "entropy" and "value_loss".
  void AddMetrics(const ObjectiveConfig& config, std::map<std::string, double>& metrics) const;
};

// Over the updates of a step.
struct StepFigures {
  ObjectiveSums sums;
  double loss = 0;          // of all updates together
  double largest_norm = 0;  // of a gradient
  uint64_t updates = 0;
  int64_t computed_tokens = 0;
  std::vector<double> log_ratios;   // learner's over sampler's, before the updates
  std::vector<double> differences;  // the same of tokens the learner's own newest version drew
};

// loss, grad_norm, updates, tokens, ess, mismatch, .. (docs/objectives.md) and those of the batch.
void AddStepMetrics(const StepFigures& figures, const ObjectiveConfig& objective,
                    const StepBatch& step, uint32_t epochs, double seconds,
                    std::map<std::string, double>& metrics);

}  // namespace tidemill
