#include "live/live_counters.h"

#include "live/settle.h"

namespace tidemill {

void LiveCounters::AddTokens(const std::map<std::string, uint64_t>& by_reason) {
  const std::map<std::string, Counter*> counters = {
      {"trained", &trained},         {untrained::kConsent, &consent},
      {untrained::kSecret, &secret}, {untrained::kSide, &side},
      {untrained::kCut, &cut},       {untrained::kRetried, &retried},
      {untrained::kChoice, &choice}, {untrained::kSampling, &sampling},
      {untrained::kForced, &forced},
  };
  for (const auto& [reason, tokens] : by_reason) {
    const auto it = counters.find(reason);
    if (it != counters.end()) *it->second += tokens;
  }
}

}  // namespace tidemill
