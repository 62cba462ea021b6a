// From the config's words to the engine of a process.
#pragma once

#include "core/status.h"
#include "core/threads.h"
#include "engine/engine_port.h"
#include "engine/torch/torch_engine.h"
#include "model/tokenizer.h"
#include "run/run_config.h"

namespace tidemill {

// `tokenizer`: so that turns may have stop strings.
Result<EngineOptions> EngineOptionsFrom(const RunConfig& config, int threads,
                                        const Tokenizer& tokenizer);
EngineThreadOptions EngineThreadOptionsFrom(const RunConfig& config);
ThreadPlan ThreadsFrom(const RunConfig& config);

}  // namespace tidemill
