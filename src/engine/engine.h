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
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/token_experts.h"
#include "core/token_support.h"
#include "engine/turn_controls.h"
#include "model/policy_version.h"
#include "model/token_id.h"
#include "model/weights.h"

namespace tidemill {

using SequenceId = uint64_t;

struct SamplingParams {
  float temperature = 1.0f;  // 0: the most likely token, always
  float top_p = 1.0f;        // 1: off
  int32_t top_k = 0;         // 0: off
  float min_p = 0.0f;        // 0: off
  // -1: not asked. Else TurnOutput also has the model's own log-probability of each token
  // (temperature 1, nothing truncated) and this many of the most likely tokens with theirs.
  int32_t top_logprobs = -1;
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
  // The turn begins with these, which are given and not drawn: fewer than max_new_tokens, of which
  // they count. Stops are not looked for in them.
  std::vector<TokenId> forced{};
  TurnControls controls{};
  // The model's log-probabilities of the prompt's tokens are in TurnOutput::prompt, with so many
  // alternatives each. -1: not asked. Only of a turn that begins a sequence, whose prompt is then
  // computed anew.
  int32_t prompt_logprobs = -1;
  // TurnOutput::prompt_state is asked for, likewise; not together with prompt_logprobs.
  bool prompt_state = false;
};

// Who reads the deltas of a streamed sequence: a port has a feed for each.
enum class TurnReaders : uint8_t { kClients, kEpisodes };

// Live sequences have somebody waiting for each token.
enum class SequenceClass : uint8_t { kTraining, kLive };

struct SequenceStart {
  SequenceId id = 0;              // the caller's; unique among those not yet released
  std::vector<TokenId> prompt{};  // at least one token
  uint64_t share_group =
      0;  // sequences of one group have the same prompt and share its cache; 0: none
  TurnParams turn{};
  // What its tokens are drawn from. It keeps the policy until Release, also one that was dropped.
  PolicyId policy = PolicyId::kMain;
  // Whose cached prompts it may use and adds to; 0: none, it neither uses nor leaves anything. What
  // one tenant's sequences computed, no other's ever meet.
  uint64_t tenant = 0;
  // A conversation of the tenant. What its sequences computed stays usable for it, and for it
  // alone, after a swap that keeps the cache. 0: none.
  uint64_t session = 0;
  SequenceClass service = SequenceClass::kTraining;
  // Its tokens are told after each step (TakeDeltas) instead of all together by Step.
  bool stream = false;
  TurnReaders readers = TurnReaders::kClients;  // of a streamed one
  // All its tokens are drawn from this version of its policy, which is held until Release. Without:
  // from the newest at each step.
  std::optional<uint64_t> pin_version{};
};

// kInterrupted: the owner of the sequence ended the turn behind a token it had drawn.
enum class TurnFinish : uint8_t { kStop, kLength, kContext, kCancelled, kInterrupted };

struct TokenVersionRun {
  uint64_t version = 0;
  uint32_t tokens = 0;
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};

// Which stop string ended a turn and where it begins, so that the text can be cut there.
struct StopMatch {
  int32_t string = -1;  // index in stop_strings; -1: none did
  uint32_t token = 0;   // index in the turn of the token it begins in
  uint32_t byte = 0;    // where it begins in the bytes of the turn's drawn tokens
};

// What the model says of a token of the prompt, given those before it.
struct PromptLogprob {
  float logprob = 0;
  std::vector<TokenLogprob> top{};  // the most likely first
};

// A finished turn. The sequence is parked afterwards: it keeps its place (and its cache, while
// there is room) until Continue or Release.
struct TurnOutput {
  SequenceId id = 0;
  std::vector<TokenId> ids;
  std::vector<float> logprobs;       // under the distribution each token was drawn from
  std::vector<float> full_logprobs;  // without truncation; empty unless the sampling truncates
  // Empty unless top_logprobs asked for them; the most likely first.
  std::vector<float> model_logprobs;
  std::vector<std::vector<TokenLogprob>> top;
  // What each token was drawn from, where the sampling truncates at a temperature above 0 and the
  // engine knows. Else empty.
  TokenSupports supports;
  // Of a model with experts, those of each token it read up to the one before the turn's last, from
  // where the turn before ended; also of what was in the cache. Empty where nobody knows.
  TokenExperts experts;
  std::vector<TokenVersionRun> versions;
  TurnFinish finish = TurnFinish::kStop;
  StopMatch stop;
  // The first so many of `ids` were forced. Their log-probabilities are 0, that of a certain draw,
  // and their `top` is empty; they must not be trained.
  uint32_t forced = 0;
  // Tokens before the turn that were not computed for it, because they were in the cache.
  uint32_t cached_tokens = 0;
  // Of each token of the prompt but the first, where TurnParams::prompt_logprobs asks for them.
  std::vector<PromptLogprob> prompt;
  // What the prompt's tokens leave behind the last layer and its norm, added up, where
  // TurnParams::prompt_state asks for it.
  std::vector<float> prompt_state;
  // The last bytes of the turn that may turn out to begin a stop string; not to be shown yet.
  uint32_t held_bytes = 0;
  double place_ms = 0;  // that the turn waited for room in the engine
};

// What came to a streamed turn since the last delta: the vectors of `part` hold the new tokens
// alone. Its versions are those of the new tokens or, of an engine that learns them at the end,
// none until the last delta, which then has those of the whole turn.
struct TurnDelta {
  TurnOutput part;
  bool done = false;  // the turn ended; `finish` and `stop` say how
  Status status;      // not ok: it failed, nothing more comes and the sequence is gone
};
// Puts `part`, which follows, behind `whole`.
void AppendPart(TurnOutput& whole, TurnOutput part);

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
  uint64_t version = 0;      // the newest of the main policy
  size_t policies = 1;       // that sequences can be started with
  size_t running = 0;
  size_t waiting = 0;
  size_t parked = 0;
  size_t pages_used = 0;    // by sequences
  size_t pages_cached = 0;  // kept from finished ones; given up when room is needed
  size_t pages_total = 0;
  // Of sequences of tenants, counted when they are admitted:
  uint64_t cache_lookups = 0;
  uint64_t cache_hits = 0;     // that found something
  uint64_t lookup_tokens = 0;  // of their prompts
  uint64_t reused_tokens = 0;  // of these, found in the cache
  size_t running_live = 0;
  size_t waiting_live = 0;
  size_t versions_held = 0;      // of all policies
  std::vector<uint64_t> held{};  // numbers that Hold keeps
};

// Not thread-safe: one thread owns it (EngineThread).
class Engine {
 public:
  virtual ~Engine() = default;

  // kExists: the id is in use. kInvalid: an empty or too long prompt, or an id outside the
  // vocabulary, named. kFull: more sequences than configured; try again after a Release.
  // kUnavailable: there is no room to hold the pinned version beside the newest. kNotFound: the
  // pinned version is not held, or the policy not known (any more).
  virtual Status Add(SequenceStart start) = 0;
  // Goes on with a parked sequence: `append` (may be empty) is put behind what is there, then a
  // turn is generated. kNotFound: no such sequence. kInvalid: it is not parked, or it would not
  // fit.
  virtual Status Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) = 0;
  // Ends the sequence's turn behind the next token that it draws, with kInterrupted, unless it ends
  // there anyway; no token is lost. Does nothing where no turn is under way. An engine that cannot
  // lets the turn end by itself.
  virtual void Interrupt(SequenceId) {}
  // Forgets the sequence, running or parked, without an output; its pages are free or in the cache
  // when it returns. kNotFound: no such sequence.
  virtual Status Release(SequenceId id) = 0;

  // One batched step: a chunk of prefill, or one token for every running sequence, or both. Returns
  // the turns that ended. Work() says whether there is anything to do.
  virtual Result<std::vector<TurnOutput>> Step() = 0;
  virtual bool Work() const = 0;
  // What the steps since the last call drew for streamed sequences, in order.
  virtual std::vector<TurnDelta> TakeDeltas() { return {}; }

  // The slow part of new weights. From any thread, also while the engine's is in a step. kInvalid:
  // another shape.
  virtual Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const = 0;
  // The quick part, between two steps. Running sequences go on; later tokens of the policy's
  // sequences carry `version`, but for those that pin another. Other policies are not touched. The
  // first version of a policy makes it known. kUnavailable: there is no room for another policy.
  // kNotFound: the policy was dropped and is still in use.
  // Afterwards `ready` may hold the older weights: to let it go can take time.
  virtual Status SwapReady(ReadyWeights& ready, PolicyVersion version, CacheOnSwap cache) = 0;
  // Both, one after the other.
  Status SwapWeights(std::shared_ptr<const Weights> weights, PolicyVersion version,
                     CacheOnSwap cache) {
    TM_ASSIGN_OR_RETURN(const std::shared_ptr<ReadyWeights> ready, Prepare(std::move(weights)));
    return SwapReady(*ready, version, cache);
  }
  Status SwapWeights(std::shared_ptr<const Weights> weights, uint64_t version, CacheOnSwap cache) {
    return SwapWeights(std::move(weights), {.policy = PolicyId::kMain, .version = version}, cache);
  }
  // No sequence can be started with the policy any more. Those under way or parked go on with what
  // they have; its weights are let go with the last of them. kNotFound: it is not known. kInvalid:
  // the main policy stays.
  virtual Status DropPolicy(PolicyId policy) {
    return NotFound("policy " + std::to_string(static_cast<uint32_t>(policy)) +
                    ": this engine has the main policy only");
  }

  // Keeps the main policy's weights of `version` until Unhold(as), under the number `as`; may be
  // the same. Pins name that number. Failures as of a pin.
  virtual Status Hold(uint64_t version, uint64_t) {
    return Unavailable("version " + std::to_string(version) +
                       ": this engine holds the newest only");
  }
  virtual void Unhold(uint64_t) {}

  // What was cached for the tenant is not used again. An engine without a cache has nothing to
  // forget.
  virtual void ForgetTenant(uint64_t) {}

  virtual EngineStats Stats() const = 0;
  virtual int32_t max_context() const = 0;
};

}  // namespace tidemill
