// The engine that the config names: this program's own, or servers.
#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "core/metrics.h"
#include "core/status.h"
#include "engine/engine_port.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "run/run_config.h"
#include "weights/weight_channel.h"

namespace tidemill {

struct EngineBeginning {
  std::shared_ptr<const PolicyWeights> weights{};
  uint64_t version = 0;
  uint64_t step = 0;
  int threads = 1;
  bool fixed_base = false;  // EngineOptions
  int32_t adapters = 0;     // the same
  int64_t adapter_rank = 0;
  std::string folder{};  // of what servers read and print
};

struct OpenedEngine {
  std::unique_ptr<EnginePort> port;
  const BusyMeter* busy = nullptr;  // of the port
  int32_t max_context = 0;
};

// `channel` and `clock` must outlive it. With servers it returns when one serves, its canary
// passed; what they cannot do is kInvalid and names the config's key.
Result<OpenedEngine> OpenEngine(const RunConfig& config, const Tokenizer& tokenizer,
                                EngineBeginning start, WeightChannel& channel, const Clock& clock);

}  // namespace tidemill
