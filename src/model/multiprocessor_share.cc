#include "model/multiprocessor_share.h"

#include <algorithm>
#include <string>

namespace tidemill {

Result<int> LearnerMultiprocessors(const MultiprocessorCounts& counts, int reserved) {
  const int step = std::max(counts.step, 1);
  const int smallest = (std::max(counts.smallest, 1) + step - 1) / step * step;
  const int learner = reserved < counts.all ? (counts.all - reserved) / step * step : 0;
  if (learner >= smallest) return learner;
  const int most = std::max(counts.all - smallest, 0);
  return Invalid(std::to_string(reserved) + " of " + std::to_string(counts.all) +
                 " multiprocessors cannot be reserved; at most " + std::to_string(most) + " can");
}

Result<MultiprocessorShare> MakeShare(MultiprocessorDriver& driver, int reserved) {
  TM_ASSIGN_OR_RETURN(const MultiprocessorCounts counts, driver.Counts());
  TM_ASSIGN_OR_RETURN(int count, LearnerMultiprocessors(counts, reserved));
  MultiprocessorShare share{.all = counts.all};
  // A driver may round up by more than it says.
  for (const int step = std::max(counts.step, 1); count >= step; count -= step) {
    TM_ASSIGN_OR_RETURN(share.learner, driver.Group(count));
    if (share.all - share.learner >= reserved) break;
  }
  if (count <= 0 || share.learner <= 0 || share.all - share.learner < reserved) {
    return Unavailable("the driver makes no group of multiprocessors that leaves " +
                       std::to_string(reserved) + " of " + std::to_string(share.all) + " free");
  }
  TM_ASSIGN_OR_RETURN(share.stream, driver.Stream());
  TM_RETURN_IF_ERROR(driver.Try(share.stream));
  return share;
}

Result<std::vector<void*>> FindEntryPoints(std::span<const char* const> names,
                                           const std::function<void*(const char*)>& find) {
  std::vector<void*> found;
  std::string missing;
  for (const char* name : names) {
    found.push_back(find(name));
    if (found.back() == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (missing.empty()) return found;
  return Unavailable("the driver has no " + missing);
}

}  // namespace tidemill
