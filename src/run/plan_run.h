// The memory plan of a run: from its config to the formulas of model/memory_plan.h.
#pragma once

#include <string>

#include "core/status.h"
#include "model/memory_plan.h"
#include "model/model_config.h"
#include "run/run_config.h"

namespace tidemill {

// Engine and learner in one process, memory unknown; the caller says where it is otherwise.
// kInvalid names the key.
Result<PlanInput> PlanInputFrom(const RunConfig& config, const ModelConfig& model, bool gpu);

// Why a run is refused: what it needs, the largest parts, and what would fit.
std::string PlanRefusal(const MemoryPlan& plan);

// "80GB" as it is said of a GPU: of 80 GiB about a hundredth is the driver's. "80GiB" and
// "80000MiB" are exact. kInvalid: none of them.
Result<uint64_t> ParseMemory(const std::string& text);

}  // namespace tidemill
