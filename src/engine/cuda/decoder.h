// A decoder on one GPU over a paged cache: rows in, drawn tokens out.
//
//   rows, pages, draws --one copy--> device --graph of the whole step--> drawn tokens in host
//   memory
//
// The next step may be started before this one is done: what one draws and the other begins with
// stays on the device.
//
// Steps in which every sequence adds one token run as a CUDA graph, captured once for each of a few
// batch sizes; others (with parts of prompts in them) as single launches. Weights are copied into
// the memory the graphs know, so new ones need no new graphs. Or the weights are somebody else's,
// read where they lie and never changed, and what is copied is an adapter. Knows no libtorch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/status.h"
#include "engine/constraint/token_mask.h"
#include "engine/cuda/step_layout.h"
#include "model/cuda/adapter_layout.h"
#include "model/cuda/kernels.h"
#include "model/cuda/weight_layout.h"
#include "model/model_config.h"

namespace tidemill {

struct CudaDecoderOptions {
  int device = 0;
  CudaType type = CudaType::kBF16;
  int32_t pages = 0;
  int32_t max_context = 0;
  int32_t max_decode_rows = 1024;  // sequences that decode in one step
  int32_t max_rows = 1536;         // of a step, with parts of prompts
  // A whole block of weights on the device, which outlives the decoder; null: it has its own.
  const void* shared_weights = nullptr;
  AdapterRanks adapter{};  // what there is room for; all 0: nothing is added to products
};

// Not thread-safe. After a failure of the device nothing it holds can be trusted any more.
class CudaDecoder {
 public:
  // kFull: the GPU has not enough memory, with what it was for.
  static Result<std::unique_ptr<CudaDecoder>> New(const ModelConfig& config,
                                                  const CudaDecoderOptions& options);
  ~CudaDecoder();

  // How weights and adapters are laid out.
  const WeightLayout& layout() const;
  const AdapterLayout& adapter_layout() const;
  // The decoder's own block of weights; null where they are shared. Fill it, then Prepare.
  void* own_weights() const;
  // Finds the fastest matrix products and captures the graphs; once, with weights in place.
  Status Prepare();
  // Takes a whole block of the same layout from device memory. Returns when it is done.
  Status TakeWeights(const void* block);
  // The same for an adapter. Until the first there is none.
  Status TakeAdapter(const void* block);
  // Waits for everything on the device, whoever started it.
  Status WaitForDevice();

  // Before the next step, which sees the result.
  Status CopyPage(int32_t from, int32_t to);
  // For the step that is started next: which mask a draw names (CudaDraw::mask); 0: there is no
  // room for another.
  int32_t AddMask(const TokenMask& mask);
  // Starts a step of at most max_rows rows in all; at most two are under way.
  Status Start(std::span<const CudaSegment> segments);
  // Waits for the older one. drawn[i] is filled where its segment i draws; a negative token where
  // the logits are not finite.
  Status Finish(std::span<CudaDrawn> drawn);
  // The logits of a segment that drew in the last step; none is under way. Vocabulary-size numbers.
  Status Logits(size_t segment, std::vector<float>& logits);

  static size_t PageBytes(const ModelConfig& config, CudaType type);

 private:
  class Impl;
  explicit CudaDecoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
