// Batches: which groups a step trains on, and which of their tokens are young enough.
//
//   replay.requests -> buffer, sessions -> Batch -> reply_to
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "replay/live_samples.h"

namespace tidemill {

// Belongs to one loop; not thread-safe.
class BatchMaker {
 public:
  BatchMaker(const ReplayParts& parts, const VersionSteps& versions, LiveSamples& live,
             const Clock& clock)
      : parts_(parts), versions_(versions), live_(live), clock_(clock) {}

  void TakeRequests();
  // Whether the open request could be met.
  bool TryMake();

 private:
  // Groups of enough episodes, in the order of their numbers; none where there are too few.
  std::optional<std::set<uint64_t>> Draw(const v1::BatchRequest& request);
  bool Usable(uint64_t group, uint64_t step);
  void AddSamples(const ReplayGroup& group, v1::Batch& batch);

  const ReplayParts parts_;
  const VersionSteps& versions_;
  LiveSamples& live_;
  const Clock& clock_;
  std::optional<v1::BatchRequest> request_;                     // the learner's, until it is met
  std::optional<std::pair<uint64_t, std::string>> last_batch_;  // step and Batch sent last
};

}  // namespace tidemill
