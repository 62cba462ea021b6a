// The engine over any device: sequences and turns, planned by a Scheduler, computed by a
// DecodeBackend.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/decode_backend.h"
#include "engine/engine.h"
#include "engine/scheduler.h"

namespace tidemill {

struct BatchEngineOptions {
  SchedulerOptions scheduling{};
  int64_t vocabulary = 0;
  uint64_t version = 0;          // of the weights the backend was made with
  int32_t versions = 1;          // of the main policy held at once
  int32_t adapters = 0;          // of other policies held at once; the backend has places for both
  size_t max_sequences = 65536;  // not yet released
  int32_t steps_at_once = 1;     // 2: the next step is started while one is under way
  // The bytes a token stands for; needed only where turns have stop strings.
  std::function<std::string(TokenId)> token_bytes{};
};

std::unique_ptr<Engine> NewBatchEngine(BatchEngineOptions options,
                                       std::unique_ptr<DecodeBackend> backend);

}  // namespace tidemill
