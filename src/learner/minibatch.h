// A step's sequences cut into minibatches, with an update each, and those into microbatches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "learner/packing.h"
#include "learner/step_batch.h"

namespace tidemill {

struct Minibatch {
  std::vector<Microbatch> parts;
  std::vector<uint32_t> ranks;  // per part: who computes it
  double tokens = 0;            // trained, of all parts
  double sequences = 0;         // of all parts

  // The first from `first` on that `rank` computes, or null.
  const Microbatch* PartOf(uint32_t rank, size_t first) const;
};

struct MinibatchOptions {
  uint32_t minibatches = 1;
  int64_t token_budget = 16384;  // of a microbatch
  uint64_t seed = 0;
  uint32_t ranks = 1;  // processes that compute a minibatch together
};

// The microbatches of `chosen`, each with its rank; every rank's share about as large.
void PackForRanks(const StepBatch& batch, std::span<const int32_t> chosen,
                  const MinibatchOptions& options, Minibatch& to);

// The sequences of one epoch of a step in a random order that seed, step and epoch decide (in order
// where there is one minibatch), in parts of about the same number; fewer parts than asked for
// where there are not enough sequences. Sequences of one prompt stay together but where a part
// ends: so their prompt is computed once, and a group's advantages are weighed in one update.
std::vector<Minibatch> CutMinibatches(const StepBatch& batch, uint64_t step, uint32_t epoch,
                                      const MinibatchOptions& options);

}  // namespace tidemill
