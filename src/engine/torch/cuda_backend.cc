// A step on a GPU: takes weights from tensors, everything else is engine/cuda.
//
// A base that stays, below an adapter, and lies in one block is read where it is, by this engine
// and by whoever else does (the learner): what is taken is the adapter alone, and it is added in
// the products. All other weights are copied into the engine's own block, an adapter merged.

#include "model/torch/aten.h"

#include <deque>
#include <tuple>

#include "engine/cpu/controlled_draw.h"
#include "engine/cpu/cpu_kernels.h"
#include "engine/cuda/decoder.h"
#include "engine/decode_backend.h"
#include "model/torch/adapter_block.h"
#include "model/torch/catch.h"
#include "model/torch/device.h"
#include "model/torch/model.h"
#include "model/torch/side_stream.h"
#include "model/torch/weight_block.h"

namespace tidemill {
namespace {

static_assert(kCudaPageSlots == kPageSlots, "pages are those of the scheduler");

CudaType TypeOf(const PolicyWeights& weights) {
  return weights.view().embed.scalar_type() == at::kFloat ? CudaType::kF32 : CudaType::kBF16;
}

// Of the same tensors, read the same way. (Comparing ExpectedTensors takes as long as the copy.)
bool SameShape(const ModelConfig& a, const ModelConfig& b) {
  const auto numbers = [](const ModelConfig& c) {
    return std::tuple(c.family, c.vocab_size, c.hidden_size, c.intermediate_size, c.num_layers,
                      c.num_heads, c.num_kv_heads, c.head_dim, c.tie_word_embeddings, c.qkv_bias,
                      c.output_bias, c.mlp_bias);
  };
  return numbers(a) == numbers(b);
}

struct WeightsForGpu final : ReadyWeights {
  std::shared_ptr<const PolicyWeights> weights;
  at::Tensor adapter;  // as the decoder wants it, where the base is shared
};

// The base of weights that an engine can read where it lies, or null.
const void* BaseToShare(const PolicyWeights& weights, bool fixed_base) {
  return fixed_base || weights.adapter() != nullptr ? WholeBlock(weights) : nullptr;
}

class CudaBackend final : public DecodeBackend {
 public:
  CudaBackend(const PolicyWeights& weights, std::unique_ptr<CudaDecoder> decoder)
      : config_(weights.config()),
        type_(TypeOf(weights)),
        device_(weights.view().embed.device()),
        decoder_(std::move(decoder)) {
    if (decoder_->own_weights() != nullptr) return;
    base_ = weights.tensors();
    shared_ = WholeBlock(weights, decoder_->layout());
  }

  // A copy of whole weights on the device is quick and in the order of its steps: only adapters are
  // laid out beforehand.
  Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const override {
    auto ready = std::make_shared<WeightsForGpu>();
    ready->weights = ToPolicyWeights(std::move(weights));
    if (shared_ != nullptr) {
      TM_ASSIGN_OR_RETURN(ready->adapter, LaidOutAdapter(*ready->weights));
    }
    return std::shared_ptr<ReadyWeights>(std::move(ready));
  }

  Status Take(ReadyWeights& ready, int32_t) override {
    const auto& mine = static_cast<WeightsForGpu&>(ready);
    return shared_ != nullptr ? decoder_->TakeAdapter(mine.adapter.data_ptr())
                              : Load(*mine.weights);
  }

  // What the engine is started with.
  Status TakeFirst(const PolicyWeights& weights) {
    if (shared_ == nullptr) return Load(weights);
    TM_ASSIGN_OR_RETURN(const at::Tensor adapter, LaidOutAdapter(weights));
    return decoder_->TakeAdapter(adapter.data_ptr());
  }

  void CopyPage(PageId from, PageId to) override {
    const Status status = decoder_->CopyPage(from, to);
    if (pending_.ok()) pending_ = status;
  }

  Status Start(std::span<const StepSegment> segments) override {
    TM_RETURN_IF_ERROR(std::exchange(pending_, Ok()));
    segments_.clear();
    HostWork work;
    for (const StepSegment& s : segments) {
      const SamplingParams& how = s.sampling;
      const int32_t mask = s.draw ? MaskOf(s) : 0;
      if (mask > 0) {
        work.masked.push_back({segments_.size(), s.controls, how.temperature > 0});
      } else if (s.draw && (s.controls != nullptr || !Foresees(how))) {
        work.draws.push_back({.segment = segments_.size(),
                              .sampling = how,
                              .controls = s.controls,
                              .seed = s.seed,
                              .position = static_cast<uint64_t>(s.first) + s.tokens.size()});
      }
      segments_.push_back(
          {.tokens = s.tokens,
           .after = s.after,
           .first = s.first,
           .pages = s.pages,
           .draw = s.draw,
           .how = {.seed = s.seed,
                   .position = s.first + static_cast<int32_t>(s.tokens.size()),
                   .inverse_temperature = how.temperature > 0 ? 1.0f / how.temperature : 0.0f,
                   .mask = mask}});
    }
    TM_RETURN_IF_ERROR(decoder_->Start(segments_));
    host_work_.push_back(std::move(work));
    return Ok();
  }

  Status Finish(std::span<Drawn> drawn) override {
    const HostWork work = std::move(host_work_.front());
    host_work_.pop_front();
    drawn_.resize(drawn.size());
    TM_RETURN_IF_ERROR(decoder_->Finish(drawn_));
    for (size_t i = 0; i < drawn.size(); ++i) {
      drawn[i] = {.id = drawn_[i].token,
                  .logprob = drawn_[i].logprob,
                  .full_logprob = drawn_[i].logprob,
                  .model_logprob = drawn_[i].logprob};
    }
    for (const MaskedDraw& draw : work.masked) {
      const DrawControls& controls = *draw.controls;
      if (controls.record_support && draw.random) {
        drawn[draw.segment].support = controls.mask->support();
      }
    }
    for (const HostDraw& draw : work.draws) {
      TM_RETURN_IF_ERROR(DrawOnCpu(draw, drawn[draw.segment]));
    }
    return Ok();
  }

  // Truncated sampling and the model's own log-probabilities are for serving and evaluation; the
  // logits of such rows come to the host.
  bool Foresees(const SamplingParams& sampling) const override {
    return DrawsOnDevice(sampling) && !Reports(sampling);
  }
  // Of the step that was started last: nothing of it is left to the host.
  bool ForeseesDraw(const StepSegment&) const override { return host_work_.back().draws.empty(); }

 private:
  static bool DrawsOnDevice(const SamplingParams& sampling) {
    return !sampling.Truncates() || sampling.temperature <= 0;
  }
  // The model's own log-probability is that of the draw where the temperature is 1 or 0.
  static bool Reports(const SamplingParams& sampling) {
    return sampling.top_logprobs > 0 ||
           (sampling.top_logprobs == 0 && sampling.temperature != 1 && sampling.temperature > 0);
  }

  // Which mask of the next step the draw is held to; 0: the host draws, or there is none.
  int32_t MaskOf(const StepSegment& segment) {
    const DrawControls* controls = segment.controls.get();
    const bool can = controls != nullptr && controls->mask != nullptr && !controls->Shifts() &&
                     Foresees(segment.sampling);
    // Under a mask the model's own log-probability is not that of the draw.
    return can && segment.sampling.top_logprobs < 0 ? decoder_->AddMask(*controls->mask) : 0;
  }

  // What the device draws under a mask.
  struct MaskedDraw {
    size_t segment = 0;
    std::shared_ptr<const DrawControls> controls;
    bool random = true;
  };

  // What the host draws when a step is done.
  struct HostDraw {
    size_t segment = 0;
    SamplingParams sampling;
    std::shared_ptr<const DrawControls> controls;
    uint64_t seed = 0;
    uint64_t position = 0;
  };

  // What is left to the host when a step is done.
  struct HostWork {
    std::vector<HostDraw> draws{};
    std::vector<MaskedDraw> masked{};
  };

  at::ScalarType type() const { return type_ == CudaType::kF32 ? at::kFloat : at::kBFloat16; }

  // Into the engine's own block.
  Status Load(const PolicyWeights& weights) {
    if (!SameShape(weights.config(), config_)) {
      return Invalid("the new weights have a different shape than the old ones");
    }
    return CatchTorchStatus("taking new weights", [&] {
      const bool whole = weights.adapter() == nullptr && TypeOf(weights) == type_ &&
                         weights.view().embed.device() == device_;
      const void* block = whole ? WholeBlock(weights, decoder_->layout()) : nullptr;
      return block != nullptr ? decoder_->TakeWeights(block) : CopyOneByOne(weights);
    });
  }

  // Any thread.
  Result<at::Tensor> LaidOutAdapter(const PolicyWeights& weights) const {
    if (!SameShape(weights.config(), config_) ||
        WholeBlock(weights, decoder_->layout()) != shared_) {
      return Invalid(
          "the new weights are not an adapter on the base that this engine was started with");
    }
    return CatchTorch<at::Tensor>("laying out an adapter", [&] {
      Result<at::Tensor> block = at::Tensor();
      OnSideStream(device_, [&] {
        block = AdapterBlock(weights.adapter().get(), config_, decoder_->adapter_layout(), device_,
                             type());
      });
      return block;
    });
  }

  Status CopyOneByOne(const PolicyWeights& weights) {
    const at::NoGradGuard no_grad;
    const auto options = at::TensorOptions().device(device_).dtype(type());
    for (const WeightPlace& place : decoder_->layout().places) {
      char* at = static_cast<char*>(decoder_->own_weights()) + place.first * CudaTypeBytes(type_);
      at::from_blob(at, place.shape, options).copy_(MergedTensor(weights, place.name).detach());
    }
    return decoder_->WaitForDevice();
  }

  Status DrawOnCpu(const HostDraw& draw, Drawn& drawn) {
    if (drawn.id < 0) return Ok();  // the logits are not finite
    TM_RETURN_IF_ERROR(decoder_->Logits(draw.segment, logits_));
    if (draw.controls == nullptr && DrawsOnDevice(draw.sampling)) {
      ReportModel(BestCpuKernels(), logits_, draw.sampling.top_logprobs, scratch_, drawn);
      return Ok();
    }
    DrawControlled(BestCpuKernels(), logits_, draw.sampling, draw.controls.get(), draw.seed,
                   draw.position, scratch_, drawn);
    return Ok();
  }

  const ModelConfig config_;
  const CudaType type_;
  const at::Device device_;
  NamedTensors base_;             // kept alive where it is shared
  const void* shared_ = nullptr;  // where it lies; null: the decoder has weights of its own
  std::unique_ptr<CudaDecoder> decoder_;
  Status pending_;  // of copied pages, said by the next Start
  std::vector<CudaSegment> segments_;
  std::deque<HostWork> host_work_;  // of the steps under way
  std::vector<CudaDrawn> drawn_;
  std::vector<float> logits_;
  SamplerScratch scratch_;
};

}  // namespace

size_t CudaPageBytes(const PolicyWeights& weights) {
  return CudaDecoder::PageBytes(weights.config(), TypeOf(weights));
}

Result<std::unique_ptr<DecodeBackend>> NewCudaBackend(const PolicyWeights& weights,
                                                      const BackendOptions& options) {
  const at::Tensor& embed = weights.view().embed;
  TM_CHECK(OnGpu(embed), "a GPU engine has its weights on the GPU");
  if (options.int8_weights) {
    return Invalid("engine.weights = int8 is for an engine on a CPU; use float32 on a GPU");
  }
  if (weights.config().experts.count > 0) {
    return Invalid("experts are computed on a CPU only so far; this model has " +
                   std::to_string(weights.config().experts.count) + " a layer");
  }
  if (options.adapters != 0) {
    return Invalid(
        "an engine on a GPU draws from one policy; adapters of others beside it are for a CPU so "
        "far");
  }
  if (options.versions != 1) {
    return Invalid(
        "an engine on a GPU holds one version at a time; engine.versions must be 1, not " +
        std::to_string(options.versions));
  }
  CudaDecoderOptions with{.device = embed.device().index() < 0 ? 0 : embed.device().index(),
                          .type = TypeOf(weights),
                          .pages = options.pages,
                          .max_context = options.max_context,
                          .max_decode_rows = options.max_decode_rows,
                          .max_rows = options.max_rows};
  with.shared_weights = BaseToShare(weights, options.fixed_base);
  if (with.shared_weights != nullptr && weights.adapter() != nullptr) {
    with.adapter = RanksOf(*weights.adapter(), weights.config());
  }
  TM_ASSIGN_OR_RETURN(std::unique_ptr<CudaDecoder> decoder,
                      CudaDecoder::New(weights.config(), with));
  CudaDecoder& ready = *decoder;
  auto backend = std::make_unique<CudaBackend>(weights, std::move(decoder));
  TM_RETURN_IF_ERROR(backend->TakeFirst(weights));
  TM_RETURN_IF_ERROR(ready.Prepare());
  return std::unique_ptr<DecodeBackend>(std::move(backend));
}

}  // namespace tidemill
