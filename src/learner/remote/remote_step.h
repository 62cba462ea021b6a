// A training step whose arithmetic others do: what is decided about a batch is decided here, log-
// probabilities, gradients and updates come from the ranks.
//
//   v1::Batch -> PrepareStep -> "score" (proximal, reference, values) -> "update" a minibatch
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/version_steps.h"
#include "learner/credit.h"
#include "learner/gradient_watch.h"
#include "learner/minibatch.h"
#include "learner/objective_config.h"
#include "learner/remote/rank_link.h"
#include "learner/schedule.h"
#include "learner/step_figures.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct RemoteStepOptions {
  ObjectiveConfig objective;
  CreditConfig credit;
  LearningRateSchedule schedule;
  double grad_clip = 1.0;            // largest norm of a gradient; 0: off
  int64_t microbatch_tokens = 8192;  // a rank computes at once
  uint32_t minibatches = 1;
  uint32_t epochs = 1;
  double spike_factor = 10;  // a gradient this many times the running median is warned of
  uint64_t seed = 0;
  int64_t vocabulary = 0;
};

// Where the learner stands, besides what the ranks hold.
struct RemoteProgress {
  uint64_t steps = 0;
  VersionSteps versions;
  std::vector<double> gradient_norms;
};

// Not thread-safe. `link` must outlive it.
class RemoteStep {
 public:
  RemoteStep(RankLink& link, RemoteStepOptions options);

  // Metrics of one step, as Trainer reports them. On failure the ranks' weights, moments and
  // `progress` are as before: kInvalid names a sample that does not fit; kInternal: a loss or
  // gradient that is no number; kUnavailable: the ranks are gone.
  Result<std::map<std::string, double>> Train(const v1::Batch& batch, RemoteProgress& progress,
                                              std::vector<std::string>& warnings);

  // The log-probabilities of all of `ids` but the first.
  static RankMessage Canary(const std::vector<int32_t>& ids);

 private:
  // [sequence][trained token]; empty where the objective does not need it.
  struct Known {
    std::vector<std::vector<float>> proximal, reference, advantages, value_targets;
  };

  bool NeedsFirstPass() const;
  MinibatchOptions Cut() const;
  Result<Known> ScoreBefore(const StepBatch& step);
  Result<std::vector<std::vector<float>>> Score(const StepBatch& step, const Minibatch& all,
                                                const char* of,
                                                std::vector<std::vector<float>>* values);
  Status TryUpdates(const StepBatch& step, uint64_t number, const Known& known,
                    const RemoteProgress& progress, StepFigures& figures,
                    std::vector<std::string>& warnings);
  Status Update(const StepBatch& step, const Minibatch& minibatch, const Known& known,
                uint64_t steps, bool first_epoch, StepFigures& figures,
                std::vector<std::string>& warnings);
  RankMessage UpdateMessage(const Minibatch& minibatch, const Known& known, uint64_t steps) const;

  RankLink& link_;
  const RemoteStepOptions options_;
  GradientWatch watch_;
};

}  // namespace tidemill
