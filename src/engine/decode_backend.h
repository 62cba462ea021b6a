// What a device does for the engine: holds the weights and the pages, computes a batch of rows and
// draws tokens from the last ones. The engine decides which rows; it knows no device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"

namespace tidemill {

class PolicyWeights;
struct DrawControls;

using PageId = int32_t;

// Rows of one sequence in a step: its tokens at positions [first, first + tokens.size()). Their
// keys and values are written to its pages; those of [0, first) are there already.
struct StepSegment {
  std::span<const TokenId> tokens;
  int32_t after =
      -1;  // >= 0: `tokens` is one place, for what segment `after` of the step before draws
  int32_t first = 0;
  std::span<const PageId> pages;  // cover first + tokens.size() positions
  bool draw = false;              // draw the token that follows the last row
  SamplingParams sampling;
  uint64_t seed = 0;
  std::shared_ptr<const DrawControls> controls{};  // of the draw; null: none
  // >= 0: every row also says how likely the token behind it is, with so many alternatives. The
  // token behind the last row is `next`; negative: there is none, or it is drawn.
  int32_t score = -1;
  TokenId next = -1;
  bool state = false;   // what its rows leave behind the last layer is added up
  int32_t weights = 0;  // computed with what is in this place
  int32_t routed = 0;   // of a draw: the experts of the rows below are known
};

struct Drawn {
  TokenId id = 0;          // negative: the logits are not finite
  float logprob = 0;       // under the distribution it was drawn from
  float full_logprob = 0;  // without truncation
  // Where the sampling asks for them (top_logprobs):
  float model_logprob = 0;
  std::vector<TokenLogprob> top{};
  // EncodeSupport of what it was drawn from, where the sampling truncates; at temperature 0 empty.
  std::string support{};
  std::vector<PromptLogprob> scores{};  // where the segment asks for them, by row
  // Of a model with experts, those of the rows from StepSegment::routed to the one it was drawn
  // from, also of rows that were in the cache: [row][DecoderPlan::ChoicesOfToken()].
  std::vector<uint16_t> experts{};
  std::vector<float> state{};  // where it asks for that
};

// Not thread-safe but for Prepare; the engine's thread calls.
class DecodeBackend {
 public:
  virtual ~DecodeBackend() = default;

  // New weights of the same shape as the device wants them, from any thread. kInvalid: another
  // shape.
  virtual Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const = 0;
  // Takes over what its own Prepare made, into place `place` (0 at the start holds what it was made
  // with); the pages stay. No step under way reads the place. `ready` may have the older weights
  // then.
  virtual Status Take(ReadyWeights& ready, int32_t place) = 0;
  // The contents of page `from` into `to`.
  virtual void CopyPage(PageId from, PageId to) = 0;
  // Starts a step over all segments. They share only pages that none of them writes. A draw depends
  // on the logits, the seed and the position alone. At most two steps are under way at once.
  virtual Status Start(std::span<const StepSegment> segments) = 0;
  // Waits for the older of the steps under way. `drawn` has one place for each of its segments,
  // filled where it draws.
  virtual Status Finish(std::span<Drawn> drawn) = 0;
  // Whether segments can ask for scores and states.
  virtual bool Scores() const { return false; }
  // Whether a token drawn this way can be the input of a step that is started before it is known.
  virtual bool Foresees(const SamplingParams& sampling) const = 0;
  // The same of a draw of the step that was started last, with its controls.
  virtual bool ForeseesDraw(const StepSegment& segment) const {
    return segment.controls == nullptr && Foresees(segment.sampling);
  }
};

struct BackendOptions {
  int32_t pages = 0;
  int32_t max_context = 0;
  int threads = 1;
  int32_t max_decode_rows = 0;  // sequences that decode in one step
  int32_t max_rows = 0;         // of a step, with parts of prompts
  int32_t versions = 1;         // sets of the main policy's weights held at once: the first places
  int32_t adapters = 0;         // adapters of other policies held at once: the places behind them
  int64_t adapter_rank = 0;     // the largest that they have; a GPU keeps room for it
  bool fixed_base = false;      // new weights bring at most another adapter
  bool int8_weights = false;    // on a CPU: matrices in eight bits with a scale for each row
};

// Floating-point numbers on the CPU, by the kernels of cpu_kernels.h.
Result<std::unique_ptr<DecodeBackend>> NewCpuBackend(const PolicyWeights& weights,
                                                     const BackendOptions& options);
// Bytes of one page on the CPU.
size_t CpuPageBytes(const PolicyWeights& weights);

// The weights' own type (float32 or bfloat16) on the GPU they are on. A base that stays (below an
// adapter, or with fixed_base) and lies in one block (model/torch/weight_block.h) is read where it
// is; weights on another base are refused then. Only in builds with CUDA.
Result<std::unique_ptr<DecodeBackend>> NewCudaBackend(const PolicyWeights& weights,
                                                      const BackendOptions& options);
size_t CudaPageBytes(const PolicyWeights& weights);

}  // namespace tidemill
