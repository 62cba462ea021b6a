// Tools that answer after a drawn time, sometimes with a failure of ours.
#pragma once

#include "sim/world.h"
#include "tools/tool_port.h"

namespace tidemill::sim {

class SimTools final : public ToolPort {
 public:
  // `broken`: the tool that never works; empty: none. `confuses`, a planted bug: every answer is
  // that to the request before.
  SimTools(World& world, ProcessId process, std::string broken = "", bool confuses = false)
      : world_(world),
        process_(process),
        broken_(std::move(broken)),
        confuses_(confuses),
        completions_(10'000) {}

  void Submit(v1::ToolRequest request, uint64_t tag) override;
  void Cancel(const v1::TrajectoryId&) override {}
  void CancelOne(uint64_t) override {}
  Mailbox<ToolCompletion>& completions() override { return completions_; }
  size_t capacity(ToolLane) const override { return 4; }

 private:
  World& world_;
  ProcessId process_;
  std::string broken_;
  bool confuses_;
  std::string text_before_;
  Mailbox<ToolCompletion> completions_;
};

}  // namespace tidemill::sim
