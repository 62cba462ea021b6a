// The changes of the weights from one version to the next.
//
//   last version + next version's parts -> DeltaMaker -> delta
//   last version + delta                -> ApplyDelta -> next version, checked
//
// A step at the rates of reinforcement learning changes few of the weights, and most of those in
// their last bits. A delta has, for each piece of a tensor, which elements changed and the
// exclusive-or of their old and new bytes, compressed. docs/weights.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/safetensors_parts.h"
#include "weights/weight_wire.h"

namespace tidemill {

struct DeltaFigures {
  uint64_t elements = 0;
  uint64_t changed = 0;
  double density() const {
    return elements == 0 ? 0 : static_cast<double>(changed) / static_cast<double>(elements);
  }
};

// Keeps a copy of the last version. Belongs to one thread.
class DeltaMaker {
 public:
  struct Options {
    double share_max = 0.5;  // of a whole version's bytes; a larger delta is not made
    int threads = 1;
  };
  explicit DeltaMaker(Options options) : options_(options) {}

  // The delta from the version before; none for the first one, for one with other tensors, and
  // where it would be too large. Afterwards the next one counts from this version.
  std::optional<std::string> Next(const SafetensorsParts& parts);
  // The next version is the first one.
  void Forget() { last_bytes_ = 0; }

  // Of the last delta that was made.
  const DeltaFigures& figures() const { return figures_; }

 private:
  std::optional<std::string> Compare(const SafetensorsParts& parts);
  void Keep(const SafetensorsParts& parts);

  const Options options_;
  std::optional<WeightBuffer> last_;
  size_t last_bytes_ = 0;  // 0: there is none
  DeltaFigures figures_;
};

// `out` has as many bytes as `base`; on failure nothing it holds is of use. kInvalid: the delta was
// made from another base; kCorrupt: it is damaged. `out` is equal to the version it was made for,
// tensor by tensor, by a checksum.
Status ApplyDelta(std::string_view base, std::string_view delta, std::byte* out, int threads = 1);

}  // namespace tidemill
