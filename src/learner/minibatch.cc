#include "learner/minibatch.h"

#include <algorithm>

#include "core/random.h"

namespace tidemill {

const Microbatch* Minibatch::PartOf(uint32_t rank, size_t first) const {
  for (size_t i = first; i < parts.size(); ++i) {
    if (ranks[i] == rank) return &parts[i];
  }
  return nullptr;
}

void PackForRanks(const StepBatch& batch, std::span<const int32_t> chosen,
                  const MinibatchOptions& options, Minibatch& to) {
  const auto shares = ShareOut(batch.sequences, chosen, options.ranks);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    for (Microbatch& part :
         PackMicrobatches(batch.sequences, batch.advantages, shares[rank], options.token_budget)) {
      to.tokens += static_cast<double>(part.trained_tokens);
      to.parts.push_back(std::move(part));
      to.ranks.push_back(rank);
    }
  }
  to.sequences = static_cast<double>(chosen.size());
}

std::vector<Minibatch> CutMinibatches(const StepBatch& batch, uint64_t step, uint32_t epoch,
                                      const MinibatchOptions& options) {
  std::vector<int32_t> order = batch.Trainable();
  const uint64_t parts = std::min<uint64_t>(options.minibatches, order.size());
  if (parts > 1) {
    Random random = Random(options.seed).Split(step).Split(epoch);
    random.Shuffle(order);
    order = OrderByPrompt(batch.sequences, order);
  }
  std::vector<Minibatch> minibatches;
  for (uint64_t part = 0; part < parts; ++part) {
    const size_t first = order.size() * part / parts, last = order.size() * (part + 1) / parts;
    const std::span<const int32_t> chosen = std::span(order).subspan(first, last - first);
    Minibatch minibatch;
    PackForRanks(batch, chosen, options, minibatch);
    minibatches.push_back(std::move(minibatch));
  }
  return minibatches;
}

}  // namespace tidemill
