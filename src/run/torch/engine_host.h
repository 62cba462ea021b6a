// The engine of a process, with the weights that it begins with and the channel it gets newer ones
// from.
#pragma once

#include <memory>
#include <vector>

#include "engine/policy_channel.h"
#include "run/process.h"
#include "run/torch/open_engine.h"
#include "run/torch/weights_watch.h"

namespace tidemill {

class StoreHost;

class EngineHost final : public Host {
 public:
  explicit EngineHost(Process& process) : process_(process) {}
  // `store`: where the learner is in this process; null: the weights come from another.
  Status Open(StoreHost* store);
  EnginePort& engine() { return *engine_.port; }

  std::vector<PortUse> Usage(Time now) const override {
    return {{"engine", engine_.busy->Busy(now), 1}};
  }
  Status Watch() override { return follows_ ? follows_->Look(engine_.port->version()) : Ok(); }

 private:
  Status OpenPolicies(const StoreHost& store);

  Process& process_;
  std::unique_ptr<WeightsWatch> follows_;  // of a rollout worker: the learner's weights
  OpenedEngine engine_;
  std::vector<std::unique_ptr<PolicyChannel>> channels_;
};

}  // namespace tidemill
