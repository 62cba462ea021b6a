// From the learner to generation: the newest complete version of the weights. Publishing never
// waits for a subscriber and a subscriber never waits for a publisher.
#pragma once

#include <cstdint>
#include <memory>

#include "core/status.h"
#include "model/weights.h"

namespace tidemill {

struct PublishedWeights {
  uint64_t version = 0;
  uint64_t step = 0;
  std::shared_ptr<const Weights> weights;
};

// Thread-safe.
class WeightChannel {
 public:
  virtual ~WeightChannel() = default;
  // `weights` must not change afterwards. A version not above the newest is kInvalid.
  virtual Status Publish(PublishedWeights weights) = 0;
  // The newest complete version if it is above `have`; else one without weights, at the cost of an
  // atomic load. kCorrupt: what was published does not check out; keep what you have.
  virtual Result<PublishedWeights> NewerThan(uint64_t have) = 0;
  // A subscriber has `version` in memory of its own.
  virtual void Taken(uint64_t version) { static_cast<void>(version); }
};

// How long a channel holds on to what was published. A whole set of weights on a GPU is large: with
// one subscriber it can go as soon as that has taken it, before the next is made.
enum class HoldWeights : uint8_t { kUntilNext, kUntilTaken };

// In one process: hands over the pointer.
std::unique_ptr<WeightChannel> NewLocalWeightChannel(HoldWeights hold = HoldWeights::kUntilNext);

}  // namespace tidemill
