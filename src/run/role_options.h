// From the config's words to the options of the loops and ports that work, wherever they run: in
// one process (training_parts.cc) or each in its own (cmd_worker.cc, worker_rollout.cc).
#pragma once

#include <vector>

#include "config/run_config.h"
#include "core/status.h"
#include "engine/engine_port.h"
#include "engine/torch/torch_engine.h"
#include "rollout/protocol.h"
#include "rollout/rollout_loop.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {

Result<EngineOptions> EngineOptionsFrom(const RunConfig& config, int threads);
EngineThreadOptions EngineThreadOptionsFrom(const RunConfig& config);
RolloutOptions RolloutOptionsFrom(const RunConfig& config, int32_t max_context);
ToolExecutorOptions ToolExecutorOptionsFrom(const RunConfig& config, int slots);
ToolLoopOptions ToolLoopOptionsFrom(const RunConfig& config);
// What the model is told: the built-in tools and those of the config.
ProtocolOptions ProtocolOptionsFrom(const RunConfig& config);
// kInvalid names a task that wants a tool nobody has.
Status CheckTools(const std::vector<v1::Task>& tasks, const ProtocolOptions& options);
// How often leases are prolonged.
inline Duration LeasePeriod(const RunConfig& config) {
  return config.bus.lease / 3;
}

}  // namespace tidemill
