// Which item of a buffer is next: to be trained on, or to be evicted. Pure decisions, no storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/random.h"
#include "core/status.h"

namespace tidemill {

using ItemKey = uint64_t;

struct Selection {
  ItemKey key = 0;
  double probability = 1;  // with which it was chosen among what was there
};

// Knows keys and priorities. Belongs to one loop; not thread-safe. Randomness comes only from the
// stream it was given, so a run replays exactly.
class Selector {
 public:
  virtual ~Selector() = default;
  // kExists: the key is known. kInvalid: a priority that is negative or no number.
  virtual Status Insert(ItemKey key, double priority) = 0;
  // kNotFound: no such key.
  virtual Status Remove(ItemKey key) = 0;
  // Changes a priority. kNotFound, kInvalid as above; then nothing has changed.
  virtual Status Update(ItemKey key, double priority) = 0;
  // Chooses, without removing. kNotFound: there is nothing.
  virtual Result<Selection> Sample() = 0;
  virtual size_t size() const = 0;
};

// The smallest key first: keys are given in the order of age. Priorities do not matter.
std::unique_ptr<Selector> NewFifoSelector();
// Each with the same probability.
std::unique_ptr<Selector> NewUniformSelector(Random random);
// In proportion to priority^exponent; where every priority is 0, each with the same probability.
std::unique_ptr<Selector> NewPrioritizedSelector(Random random, double exponent);

// "fifo", "uniform" or "prioritized". kInvalid names the known ones.
Result<std::unique_ptr<Selector>> NewSelector(std::string_view name, Random random,
                                              double priority_exponent);

}  // namespace tidemill
