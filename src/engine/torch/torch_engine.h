// Makes the engine that computes (engine/engine.h says what an engine does).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/status.h"
#include "engine/engine.h"

namespace tidemill {

class DecodeBackend;
class PolicyWeights;

struct EngineOptions {
  int32_t max_context = 0;       // tokens of a sequence; 0: what the model and the cache allow
  size_t max_sequences = 65536;  // not yet released
  size_t max_running = 1024;     // that decode in one step
  int32_t prefill_chunk =
      512;  // rows of prompts computed in one step, so that decoding does not stall
  uint64_t cache_bytes = uint64_t{1} << 30;  // for keys and values; used up only as needed
  int threads = 1;
  // 2: a step is started while the one before it runs, so a device of its own never waits for the
  // engine; where a turn ends with a token nobody could foresee, one row of it is for nothing. 0:
  // what pays, 2 on a GPU and 1 on a CPU.
  int32_t steps_at_once = 0;
  // Sets of the main policy's weights held at once: more than one lets sequences pin a version.
  // Each needs the memory of a whole set, or where only an adapter changes, of an adapter.
  int32_t versions = 1;
  // Adapters held at once for policies beside the main one, of all policies and versions. They are
  // on the main policy's base.
  int32_t adapters = 0;
  int64_t adapter_rank = 0;  // the largest that they have; a GPU keeps room for it
  // New weights bring at most another adapter. Then an engine on a GPU reads a base that lies in
  // one block where it is, also without an adapter.
  bool fixed_base = false;
  // On a CPU: matrices in eight bits with a scale for each row, made where new weights are
  // prepared.
  bool int8_weights = false;
  // Of places, rows and pages for live sequences, where those of training want them too.
  double live_share = 0.5;
  // The bytes a token stands for; needed only where turns have stop strings.
  std::function<std::string(TokenId)> token_bytes{};
};

// kInvalid: a cache too small for one sequence of max_context, with the size it would need.
Result<std::unique_ptr<Engine>> NewEngine(std::shared_ptr<const PolicyWeights> weights,
                                          uint64_t version, EngineOptions options);

// Defined only in programs built for tests, which draw given tokens (tests/agents/forced_draws.h):
// what it returns takes the place of the backend of every engine made.
[[gnu::weak]] std::unique_ptr<DecodeBackend> ReplaceBackend(std::unique_ptr<DecodeBackend> backend);

}  // namespace tidemill
