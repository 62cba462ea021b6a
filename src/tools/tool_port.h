// Tools as a port: a request in, its result out, the work in boxes on other threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/mailbox.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct ToolDone {
  uint64_t tag = 0;
  v1::ToolResult result;  // OUTCOME_UNAVAILABLE: ours failed, and `cause` says how
};

class ToolPort {
 public:
  virtual ~ToolPort() = default;
  // Exactly one ToolDone comes for each. The loop submits no more at once than there are slots.
  virtual void Submit(v1::ToolRequest request, uint64_t tag) = 0;
  // The episode was given up: what it has not started need not run. A ToolDone still comes for each
  // request.
  virtual void Cancel(const v1::TrajectoryId& episode) = 0;
  virtual Mailbox<ToolDone>& events() = 0;
  // Requests of tools, and of grading, that run at once.
  virtual size_t tool_slots() const = 0;
  virtual size_t grade_slots() const = 0;
};

}  // namespace tidemill
