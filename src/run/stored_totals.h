// Totals that run.db knows better than the ticks of metrics.jsonl: a process that was killed had
// counted what it did not tell, and steps that a resume takes back were counted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "store/run_reader.h"

namespace tidemill {

struct StoredTotals {
  uint64_t drawn = 0;  // tokens of the episodes that are stored: at least these were generated
  uint64_t trained_tokens = 0;
  uint64_t zero_variance = 0;  // episodes of groups that were dropped for it
  uint64_t untrainable = 0;

  static Result<StoredTotals> Read(RunReader& reader);

  // `counts` is by Counter::About::key.
  template <typename Counts>
  void PutInto(Counts& counts) const {
    using Number = typename Counts::mapped_type;
    Number& generated = counts["generated_tokens"];
    generated = std::max(generated, static_cast<Number>(drawn));
    counts["trained_tokens"] = static_cast<Number>(trained_tokens);
    counts["zero_variance"] = static_cast<Number>(zero_variance);
    counts["untrainable"] = static_cast<Number>(untrainable);
  }
};

}  // namespace tidemill
