// Tools as a port: requests in, results out, boxes and threads behind it. The simulator puts a fake
// here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/mailbox.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// The answer to one Submit; exactly one comes for each, cancelled or not.
struct ToolCompletion {
  uint64_t tag = 0;
  v1::ToolResult result;
};

// Gradings have slots of their own, so that neither they nor the agents' calls can starve the
// other.
enum class ToolLane { kAgent, kGrade };
inline constexpr size_t kToolLanes = 2;

inline ToolLane LaneOf(const v1::ToolRequest& request) {
  return request.tool() == "grade" ? ToolLane::kGrade : ToolLane::kAgent;
}

class ToolPort {
 public:
  virtual ~ToolPort() = default;
  // Requests that may be under way at once in a lane, one waiting behind each slot included.
  virtual size_t capacity(ToolLane lane) const = 0;
  // At most `capacity` at once in a lane; more is a broken contract.
  virtual void Submit(v1::ToolRequest request, uint64_t tag) = 0;
  // The episode was given up: what has not started is not run, what runs is ended, its kept box
  // closed. The answers still come, OUTCOME_UNAVAILABLE.
  virtual void Cancel(const v1::TrajectoryId& episode) = 0;
  // The same for this request alone. Does nothing where it is not under way.
  virtual void CancelOne(uint64_t tag) = 0;
  virtual Mailbox<ToolCompletion>& completions() = 0;
};

}  // namespace tidemill
