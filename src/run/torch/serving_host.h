// How a process serves its policy to clients and agents: the gateway, who records its turns, and
// what watches over them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/agent_runner.h"
#include "environments/environment_runner.h"
#include "gateway/served_adapters.h"
#include "live/guard_desk.h"
#include "live/live_operator.h"
#include "live/live_run.h"
#include "live/release_desk.h"
#include "run/gateway_host.h"
#include "run/process.h"

namespace tidemill {

class StoreHost;

class ServingHost final : public Host {
 public:
  explicit ServingHost(Process& process) : process_(process) {}
  // Loops have ended: answers that are under way end here, so that no agent waits for them.
  ~ServingHost() override;
  // Where the config says so. `store`: where the learner is in this process, else null.
  Status Open(EnginePort* engine, StoreHost* store);

  std::vector<const CounterSet*> counters() const override;
  void Sink(MetricSink& sink) const override;
  Status Watch() override { return agents_ ? agents_->CheckUse() : Ok(); }

 private:
  Result<std::unique_ptr<TurnRecorder>> MakeRecorders(EnginePort& engine, StoreHost* store);
  Result<std::unique_ptr<TurnRecorder>> OpenLive(StoreHost& store);
  LiveMemory LiveMemoryOf(CaseShelf& shelf) const;
  void OpenRelease(EnginePort& engine, StoreHost& store);
  void OpenGuards();
  ServedAdapters* ServePolicies(EnginePort& engine);
  Status OpenTools();
  Status OpenAgents(BlobStore* blobs);
  Status OpenEnvironments();

  Process& process_;
  Metrics own_metrics_;                   // of a gateway whose figures nobody asks for
  std::unique_ptr<ReleaseDesk> release_;  // where clients get a released version
  std::unique_ptr<GuardDesk> guards_;     // where sessions are learned from, or released
  std::optional<LiveOperator> operator_;
  std::unique_ptr<ServedAdapters> adapters_;  // policies of the run, by their names
  std::unique_ptr<EpisodeTools> tools_;       // of agents; the gateway asks it
  std::unique_ptr<GatewayHost> gateway_;      // owns the recorders
  LiveRun* live_ = nullptr;                   // null: sessions are not learned from
  EpisodeRecorder* episodes_ = nullptr;       // where the agent is a program
  std::unique_ptr<AgentRunner> agents_;
  std::unique_ptr<EnvironmentRunner> environments_;  // instead of them
};

}  // namespace tidemill
