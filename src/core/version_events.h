// What happens to a run's versions, told by the loops that know to whoever decides by it: which
// version people are served (live/release_desk.h), whether an alarm is on (live/guard_desk.h). The
// journal says the same to people.
//
//   learner: VersionMade, StepTrained, LearnerSetBack;  dispatcher: StepEvaluated -> listeners
//   ReleasePort -> ReleaseWish -> learner
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "core/mailbox.h"
#include "core/status.h"

namespace tidemill {

// The weights after so many steps were published.
struct VersionMade {
  uint64_t version = 0;
  uint64_t step = 0;
};
struct StepTrained {
  uint64_t step = 0;
  std::optional<double> entropy{}, kl{};  // where the objective has them
};
// An evaluation of the weights after so many steps is complete.
struct StepEvaluated {
  uint64_t step = 0;
  std::optional<double> pass_rate{};  // nothing: not one sample could be scored
};
// The learner goes on from earlier weights, published as `version`; or it cannot, and why.
struct LearnerSetBack {
  Status status;
  uint64_t version = 0;
  uint64_t step = 0;
};
using VersionEvent = std::variant<VersionMade, StepTrained, StepEvaluated, LearnerSetBack>;

class VersionListener {
 public:
  virtual ~VersionListener() = default;
  // Any thread; never blocks.
  virtual void Take(const VersionEvent& event) = 0;
};
using VersionListeners = std::vector<VersionListener*>;

inline void Tell(const VersionListeners& listeners, const VersionEvent& event) {
  for (VersionListener* listener : listeners) listener->Take(event);
}

// What a release asks of the learner.
struct ReleaseWish {
  uint64_t step = 0;                   // of the released weights
  std::vector<uint64_t> keep{};        // versions it may be set back to
  std::optional<uint64_t> set_back{};  // to this version, once
};

// Decides which version people are served; its state is durable. The wishes go to the learner.
class ReleasePort : public VersionListener {
 public:
  virtual Mailbox<ReleaseWish>& wishes() = 0;
};

}  // namespace tidemill
