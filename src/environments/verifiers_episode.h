// What a verifiers server tells of a run, put together: deltas of its traces as they grow, and the
// reply at its end, which says how much there must be.
//
//   deltas -> Apply -> VerifiersEpisode -> Finish(reply) -> rewards, what the model is said to have
//   drawn
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/status.h"
#include "environments/environment_driver.h"

namespace tidemill {

// One agent's conversation.
struct VerifiersTrace {
  ClaimedTalk talk;
  uint64_t nodes = 0, calls = 0;
  bool ok = false;
  EnvironmentJson rewards = EnvironmentJson::object();
  std::string error;  // its last
};

class VerifiersEpisode {
 public:
  // kInvalid: it is no delta.
  Status Apply(const EnvironmentJson& delta);
  // Of the reply that ends the run. kInvalid: something of the episode did not arrive.
  Result<EndEpisode> Finish(const EnvironmentJson& reply, const std::string& environment);

 private:
  Status Grow(VerifiersTrace& trace, const EnvironmentJson& delta) const;

  std::map<std::string, VerifiersTrace> traces_;  // by id
};

}  // namespace tidemill
