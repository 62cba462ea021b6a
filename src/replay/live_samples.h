// Trajectories of sessions: they come scored and with what they are compared with, wait in a pool
// of their own and are used once. The live loop owns their records; what becomes of them is written
// here.
#pragma once

#include "replay/live_pool.h"
#include "replay/scoring.h"

namespace tidemill {

// Belongs to one loop; not thread-safe.
class LiveSamples {
 public:
  LiveSamples(const ReplayParts& parts, const PolicyVersions& versions, const Clock& clock);

  // Takes in what the live loop sent.
  void Take();
  // Leaves out what is too old for the step, and says whether enough remain.
  bool Ready(const v1::BatchRequest& request);
  void AddTo(uint32_t count, v1::Batch& batch);

 private:
  Status Check(const v1::LiveEvent& event) const;
  void Add(v1::LiveEvent event);
  void LeaveOutOld(uint64_t step);

  const ReplayParts parts_;
  const PolicyVersions& versions_;
  const Clock& clock_;
  LivePool pool_;
};

}  // namespace tidemill
