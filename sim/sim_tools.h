// Tools that answer after a drawn time, sometimes with a failure of ours.
#pragma once

#include "sim/world.h"
#include "tools/tool_port.h"

namespace tidemill::sim {

class SimTools final : public ToolPort {
 public:
  SimTools(World& world, ProcessId process) : world_(world), process_(process), events_(10'000) {}

  void Submit(v1::ToolRequest request, uint64_t tag) override;
  void Cancel(const v1::TrajectoryId&) override {}
  Mailbox<ToolDone>& events() override { return events_; }
  size_t tool_slots() const override { return 4; }
  size_t grade_slots() const override { return 4; }

 private:
  World& world_;
  ProcessId process_;
  Mailbox<ToolDone> events_;
};

}  // namespace tidemill::sim
