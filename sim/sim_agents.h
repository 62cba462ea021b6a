// Agents as the rollout loop knows them: programs that take their time, ask for some turns, and
// whose boxes are lost now and then. Everything is drawn from the world's seed.
#pragma once

#include <cstdint>
#include <map>

#include "rollout/agent_port.h"
#include "sim/sim_ports.h"
#include "sim/world.h"

namespace tidemill::sim {

// Drawn by an agent whose box was lost, and by nobody else where agents are programs.
inline constexpr uint32_t kLostAgentToken = 148;

class SimAgents final : public AgentPort {
 public:
  // `lost_is_a_result`: planted bug, an agent whose box was lost counts as one that failed itself.
  SimAgents(World& world, ProcessId process, const PublishedVersions& versions,
            bool lost_is_a_result)
      : world_(world),
        process_(process),
        versions_(versions),
        lost_is_a_result_(lost_is_a_result),
        events_(100'000) {}

  void Start(AgentJob job, uint64_t tag) override;
  void Cancel(uint64_t tag) override { ended_early_[tag] = true; }
  Mailbox<AgentDone>& events() override { return events_; }

 private:
  AgentOutcome Outcome(const AgentJob& job, uint64_t begun_with);
  v1::Trajectory Branch(const AgentJob& job, uint64_t begun_with, bool lost);

  World& world_;
  ProcessId process_;
  const PublishedVersions& versions_;
  const bool lost_is_a_result_;
  Mailbox<AgentDone> events_;
  std::map<uint64_t, bool> ended_early_;  // cancelled, by tag
};

}  // namespace tidemill::sim
