// The gateway of a process that has an engine: `tidemill serve`, a run with gateway.port, a rollout
// worker with --listen.
//
//   Read(config) -> policy -> who records its turns -> Start
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/metrics.h"
#include "engine/engine_port.h"
#include "gateway/gateway.h"
#include "gateway/served_files.h"
#include "run/run_config.h"

namespace tidemill {

struct GatewayUse {
  int32_t context_tokens = 0;  // of the engine
  // What a request leaves open is drawn as training draws, so that it can be trained on; else as
  // the model's author wants it.
  bool learning = false;
  bool listens = true;    // on gateway.port; else only for agents in boxes
  std::string api_key{};  // instead of gateway.keys: the only key; empty: none
  bool in_a_run = true;   // which steps its loop, and where it ends cuts what is under way
  ServedAdapters* adapters = nullptr;  // GatewayOptions::adapters
  McpDoor* mcp = nullptr;              // GatewayOptions::mcp
  // GatewayOptions::operate.
  std::function<HttpResponse(const HttpRequest&)> operate{};
};

class GatewayHost {
 public:
  // Reads what is served, as config.model and config.gateway say.
  static Result<std::unique_ptr<GatewayHost>> Read(const RunConfig& config,
                                                   const ServedWords& words = {});

  // Listens when it returns. What is given by reference must outlive it.
  Status Start(const RunConfig& config, const GatewayUse& use,
               std::unique_ptr<TurnRecorder> recorder, EnginePort& engine, const Clock& clock,
               Metrics& metrics);

  Gateway& gateway() { return *gateway_; }
  const Gateway& gateway() const { return *gateway_; }
  const ServedPolicy& policy() const { return policy_; }
  int32_t context_tokens() const { return context_tokens_; }
  // For people: no template, no keys.
  const std::vector<std::string>& warnings() const { return warnings_; }
  void Sink(MetricSink& sink) const;

 private:
  explicit GatewayHost(ServedPolicy policy) : policy_(std::move(policy)) {}

  const ServedPolicy policy_;
  EnginePort* engine_ = nullptr;  // from Start on
  int32_t context_tokens_ = 0;    // the same
  std::vector<std::string> warnings_;
  std::unique_ptr<TurnRecorder> recorder_;
  std::unique_ptr<Gateway> gateway_;
};

}  // namespace tidemill
