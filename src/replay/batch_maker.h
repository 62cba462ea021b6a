// Batches: which groups a step trains on, and which of their tokens are young enough. A batch is of
// one policy: it holds the turns of the policy's roles, and no other's.
//
//   replay.requests -> buffer, sessions -> Batch -> reply_to
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "replay/live_samples.h"

namespace tidemill {

// Belongs to one loop; not thread-safe.
class BatchMaker {
 public:
  BatchMaker(const ReplayParts& parts, const PolicyVersions& versions, LiveSamples& live,
             const Clock& clock)
      : parts_(parts), versions_(versions), live_(live), clock_(clock) {}

  void TakeRequests();
  // Whether an open request could be met: that of the policy that has waited longest, first.
  bool TryMake();

 private:
  struct Request {
    PolicyId policy = PolicyId::kMain;
    v1::BatchRequest wish{};
  };
  // Groups of enough episodes, in the order of their numbers; none where there are too few.
  std::optional<std::set<uint64_t>> Draw(const Request& request);
  bool Usable(uint64_t group, const Request& request);
  void AddSamples(const ReplayGroup& group, PolicyId policy, v1::Batch& batch);
  bool Make(const Request& request);

  const ReplayParts parts_;
  const PolicyVersions& versions_;
  LiveSamples& live_;
  const Clock& clock_;
  std::deque<Request> requests_;  // the learner's, one of a policy, until they are met
  std::map<PolicyId, std::pair<uint64_t, std::string>> last_batch_;  // step and Batch sent last
};

}  // namespace tidemill
