// The engine: from token ids to sampled token ids with exact log-probabilities, many sequences at
// once. Sequences join and leave at every step (continuous batching).
//
//   Add(prompt) -> Step, Step, .. -> TurnOutput, parked -> Continue(tool output) -> .. -> Release
//
// This header knows no torch. NewEngine (engine/torch/torch_engine.h) makes the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/token_id.h"
#include "model/weights.h"

namespace tidemill {

using SequenceId = uint64_t;

struct SamplingParams {
  float temperature = 1.0f;  // 0: the most likely token, always
  float top_p = 1.0f;        // 1: off
  int32_t top_k = 0;         // 0: off
  float min_p = 0.0f;        // 0: off
  bool Truncates() const { return top_p < 1.0f || top_k > 0 || min_p > 0.0f; }
};

// How one turn is generated.
struct TurnParams {
  SamplingParams sampling{};
  int32_t max_new_tokens = 256;
  std::vector<TokenId> stop_ids{};  // the turn ends with one of these, which is part of it
  std::vector<std::string>
      stop_strings{};  // the turn ends with the token that completes one of these
  uint64_t seed = 0;   // with the position it decides every draw
};

struct SequenceStart {
  SequenceId id = 0;              // the caller's; unique among those not yet released
  std::vector<TokenId> prompt{};  // at least one token
  uint64_t share_group =
      0;  // sequences of one group have the same prompt and share its cache; 0: none
  TurnParams turn{};
};

enum class TurnFinish : uint8_t { kStop, kLength, kContext, kCancelled };

struct TokenVersionRun {
  uint64_t version = 0;
  uint32_t tokens = 0;
};

// A finished turn. The sequence is parked afterwards: it keeps its place (and its cache, while
// there is room) until Continue or Release.
struct TurnOutput {
  SequenceId id = 0;
  std::vector<TokenId> ids;
  std::vector<float> logprobs;       // under the distribution each token was drawn from
  std::vector<float> full_logprobs;  // without truncation; empty unless the sampling truncates
  std::vector<TokenVersionRun> versions;
  TurnFinish finish = TurnFinish::kStop;
};

// Weights made ready for one engine; opaque.
class ReadyWeights {
 public:
  virtual ~ReadyWeights() = default;
};

enum class CacheOnSwap : uint8_t {
  kKeep,     // go on with keys and values of the older weights
  kRebuild,  // compute them again under the new ones
};

struct EngineStats {
  uint64_t steps = 0;
  uint64_t generated_tokens = 0;
  uint64_t prefill_tokens = 0;  // computed, shared ones counted once
  uint64_t rebuilt_tokens = 0;  // computed again after eviction or a swap
  uint64_t evictions = 0;
  uint64_t swaps = 0;
  double pause_seconds = 0;  // that generation stood still for the last swap
  uint64_t version = 0;
  size_t running = 0;
  size_t waiting = 0;
  size_t parked = 0;
  size_t pages_used = 0;
  size_t pages_total = 0;
};

// Not thread-safe: one thread owns it (EngineThread).
class Engine {
 public:
  virtual ~Engine() = default;

  // kExists: the id is in use. kInvalid: an empty or too long prompt, or an id outside the
  // vocabulary, named. kFull: more sequences than configured; try again after a Release.
  virtual Status Add(SequenceStart start) = 0;
  // Goes on with a parked sequence: `append` (may be empty) is put behind what is there, then a
  // turn is generated. kNotFound: no such sequence. kInvalid: it is not parked, or it would not
  // fit.
  virtual Status Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) = 0;
  // Forgets the sequence, running or parked, without an output. kNotFound: no such sequence.
  virtual Status Release(SequenceId id) = 0;

  // One batched step: a chunk of prefill, or one token for every running sequence, or both. Returns
  // the turns that ended. Work() says whether there is anything to do.
  virtual Result<std::vector<TurnOutput>> Step() = 0;
  virtual bool Work() const = 0;

  // The slow part of new weights. From any thread, also while the engine's is in a step. kInvalid:
  // another shape.
  virtual Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const = 0;
  // The quick part, between two steps. Running sequences go on; later tokens carry `version`.
  // Afterwards `ready` may hold the older weights: to let it go can take time.
  virtual Status SwapReady(ReadyWeights& ready, uint64_t version, CacheOnSwap cache) = 0;
  // Both, one after the other.
  Status SwapWeights(std::shared_ptr<const Weights> weights, uint64_t version, CacheOnSwap cache) {
    TM_ASSIGN_OR_RETURN(const std::shared_ptr<ReadyWeights> ready, Prepare(std::move(weights)));
    return SwapReady(*ready, version, cache);
  }

  virtual EngineStats Stats() const = 0;
  virtual int32_t max_context() const = 0;
};

}  // namespace tidemill
