#include "learner/minibatch.h"

#include <algorithm>

#include "core/random.h"

namespace tidemill {

std::vector<Minibatch> CutMinibatches(const StepBatch& batch, uint64_t step, uint32_t epoch,
                                      const MinibatchOptions& options) {
  std::vector<int32_t> order = batch.Trainable();
  const uint64_t parts = std::min<uint64_t>(options.minibatches, order.size());
  if (parts > 1) {
    Random random = Random(options.seed).Split(step).Split(epoch);
    random.Shuffle(order);
  }
  std::vector<Minibatch> minibatches;
  for (uint64_t part = 0; part < parts; ++part) {
    const size_t first = order.size() * part / parts, last = order.size() * (part + 1) / parts;
    const std::span<const int32_t> chosen = std::span(order).subspan(first, last - first);
    Minibatch minibatch;
    minibatch.parts = PackMicrobatches(batch.sequences, batch.advantages, chosen, options.pack);
    minibatch.sequences = static_cast<double>(chosen.size());
    for (const Microbatch& micro : minibatch.parts) {
      minibatch.tokens += static_cast<double>(micro.trained_tokens);
    }
    minibatches.push_back(std::move(minibatch));
  }
  return minibatches;
}

}  // namespace tidemill
