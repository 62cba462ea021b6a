#include "engine/cuda/decoder.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/cuda/decoder_shapes.h"
#include "engine/cuda/decoder_weights.h"
#include "engine/cuda/gemm.h"
#include "engine/cuda/step_layout.h"
#include "engine/cuda/steps_under_way.h"
#include "model/cuda/check.h"

namespace tidemill {
namespace {

constexpr int kTunedRows = 2048;  // steps with more rows, of long prompts, take the first product

size_t PageNumbers(const ModelConfig& c) {
  return static_cast<size_t>(2 * c.kv_size()) * kCudaPageSlots;
}

}  // namespace

class CudaDecoder::Impl {
 public:
  Impl(const ModelConfig& config, const CudaDecoderOptions& options)
      : c_(config),
        o_(options),
        layout_(MakeWeightLayout(config)),
        heads_{.type = options.type,
               .heads = static_cast<int>(config.num_heads),
               .kv_heads = static_cast<int>(config.num_kv_heads),
               .head_dim = static_cast<int>(config.head_dim)},
        shapes_{.config = c_, .type = options.type, .qkv_width = heads_.QkvWidth()},
        bytes_(CudaTypeBytes(options.type)),
        max_rows_(BatchBucket(std::max(options.max_rows, options.max_decode_rows))),
        parts_((static_cast<int>(config.vocab_size) + kCudaPartColumns - 1) / kCudaPartColumns),
        writer_({.heads = heads_,
                 .max_rows = max_rows_,
                 .max_decode_rows = options.max_decode_rows,
                 .cuts = CudaFastAttention(heads_)}) {}

  ~Impl() {
    if (stream_ != nullptr) cudaStreamSynchronize(stream_);  // a step may be under way
    for (auto& [key, graph] : graphs_) cudaGraphExecDestroy(graph);
    gemm_.reset();
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  Status Start() {
    TM_CUDA(cudaSetDevice(o_.device));
    int least = 0, greatest = 0;
    TM_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TM_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
    TM_ASSIGN_OR_RETURN(gemm_, CudaGemm::New(stream_));
    TM_RETURN_IF_ERROR(AllocateWork());
    TM_RETURN_IF_ERROR(MakeRotations());
    named_ = PlaceWeights(c_, layout_, weights_.as(), bytes_);
    return Ok();
  }

  const WeightLayout& layout() const { return layout_; }
  void* weights() const { return weights_.as(); }

  Status Prepare() {
    TM_CUDA(cudaSetDevice(o_.device));
    TM_RETURN_IF_ERROR(WaitForDevice());
    // Rows of padding, so that what is tuned and captured touches no page.
    const StepsUnderWay::Step& step = steps_.next();
    auto* rows = reinterpret_cast<CudaRow*>(step.rows());
    for (int r = 0; r < max_rows_; ++r) rows[r] = CudaRow{};
    TM_CUDA(cudaMemcpyAsync(meta_.as(), step.host, step_bytes_, cudaMemcpyHostToDevice, stream_));
    int bucket = 0;
    while (bucket < o_.max_decode_rows) {
      bucket = BatchBucket(bucket + 1);
      TM_RETURN_IF_ERROR(Tune(bucket));
      TM_RETURN_IF_ERROR(TuneHead(bucket));
      for (const bool deep : {false, true}) {
        if (deep && (o_.max_context <= kCudaLongPages * kCudaPageSlots ||
                     writer_.Splits(bucket, deep) == 1)) {
          continue;
        }
        TM_RETURN_IF_ERROR(Capture(bucket, deep));
      }
    }
    // With parts of prompts a step has more rows than sequences.
    while (bucket < std::min(max_rows_, kTunedRows)) {
      bucket = BatchBucket(bucket + 1);
      TM_RETURN_IF_ERROR(Tune(bucket));
    }
    TM_CUDA(cudaStreamSynchronize(stream_));
    return Ok();
  }

  Status TakeWeights(const void* block) {
    TM_CUDA(cudaSetDevice(o_.device));
    CudaCopyBlock(block, weights_.as(), layout_.numbers * bytes_, stream_);
    TM_CUDA(cudaGetLastError());
    TM_CUDA(cudaStreamSynchronize(stream_));
    return Ok();
  }

  Status WaitForDevice() {
    TM_CUDA(cudaDeviceSynchronize());
    return Ok();
  }

  Status CopyPage(int32_t from, int32_t to) {
    CudaCopies& copies = steps_.next().head()->copies;
    // A page that meets an earlier pair must wait for it; that is rare.
    const bool meets =
        std::any_of(copies.pages, copies.pages + copies.count, [&](const CudaCopies::Pair& pair) {
          return pair.to == from || pair.from == to || pair.to == to;
        });
    if (meets || copies.count == CudaCopies::kMost) TM_RETURN_IF_ERROR(FlushCopies());
    copies.pages[copies.count++] = {from, to};
    return Ok();
  }

  Status Start(std::span<const CudaSegment> segments) {
    TM_CHECK(!steps_.full(), "there is a place for another step");
    TM_CUDA(cudaSetDevice(o_.device));
    StepsUnderWay::Step& step = steps_.next();
    const StepShape shape = writer_.Write(segments, step.rows());
    step.draws = writer_.draws();
    TM_CUDA(cudaMemcpyAsync(meta_.as(), step.host, sizeof(CudaStepHead) + writer_.bytes(),
                            cudaMemcpyHostToDevice, stream_));
    const auto graph = shape.selects || shape.tiles > 0
                           ? graphs_.end()
                           : graphs_.find({shape.rows, shape.splits > 1});
    if (graph != graphs_.end()) {
      TM_CUDA(cudaGraphLaunch(graph->second, stream_));
    } else {
      TM_RETURN_IF_ERROR(Launch(shape));
    }
    return steps_.Started(stream_);
  }

  Status Finish(std::span<CudaDrawn> drawn) { return steps_.Finish(drawn); }

  Status Logits(size_t segment, std::vector<float>& logits) {
    TM_CHECK(steps_.none(), "the last step is done");
    const int vocabulary = static_cast<int>(c_.vocab_size);
    const size_t row =
        static_cast<size_t>(writer_.draws()[segment]) * static_cast<size_t>(c_.hidden_size);
    const auto* h = static_cast<const char*>(final_.as()) + row * bytes_;
    TM_RETURN_IF_ERROR(
        gemm_->Run(shapes_.Head(1, vocabulary, vocabulary), h, named_.head, nullptr, logits_.as()));
    logits.resize(static_cast<size_t>(vocabulary));
    TM_CUDA(cudaMemcpyAsync(logits.data(), logits_.as(), logits.size() * sizeof(float),
                            cudaMemcpyDeviceToHost, stream_));
    TM_CUDA(cudaStreamSynchronize(stream_));
    return Ok();
  }

 private:
  Status AllocateWork() {
    const auto rows = static_cast<size_t>(max_rows_);
    const auto numbers = [&](int64_t width) { return rows * static_cast<size_t>(width) * bytes_; };
    TM_RETURN_IF_ERROR(weights_.Allocate(layout_.numbers * bytes_, "weights"));
    const size_t pool = static_cast<size_t>(o_.pages) * PageNumbers(c_) * bytes_ *
                        static_cast<size_t>(c_.num_layers);
    TM_RETURN_IF_ERROR(pool_.Allocate(pool, "keys and values"));
    // What is masked is still multiplied with zero, so it must be numbers.
    TM_CUDA(cudaMemset(pool_.as(), 0, pool));
    TM_RETURN_IF_ERROR(x_.Allocate(rows * static_cast<size_t>(c_.hidden_size) * 4, "rows"));
    TM_RETURN_IF_ERROR(h_.Allocate(numbers(c_.hidden_size), "rows"));
    TM_RETURN_IF_ERROR(final_.Allocate(numbers(c_.hidden_size), "rows"));
    TM_RETURN_IF_ERROR(qkv_.Allocate(numbers(heads_.QkvWidth()), "rows"));
    TM_RETURN_IF_ERROR(mixed_.Allocate(numbers(c_.q_size()), "rows"));
    TM_CUDA(cudaMemset(mixed_.as(), 0, numbers(c_.q_size())));  // rows of padding stay as they are
    TM_RETURN_IF_ERROR(gate_up_.Allocate(numbers(2 * c_.intermediate_size), "rows"));
    TM_RETURN_IF_ERROR(act_.Allocate(numbers(c_.intermediate_size), "rows"));
    size_t logits = static_cast<size_t>(c_.vocab_size + 3);
    for (int draws = 1; draws <= max_rows_; draws = BatchBucket(draws + 1)) {
      logits = std::max(
          logits, static_cast<size_t>(draws) *
                      static_cast<size_t>(LogitColumns(draws, static_cast<int>(c_.vocab_size))));
    }
    TM_RETURN_IF_ERROR(logits_.Allocate(logits * sizeof(float), "logits"));
    TM_RETURN_IF_ERROR(
        parts_buffer_.Allocate(rows * static_cast<size_t>(parts_) * sizeof(CudaPart), "draws"));
    size_t partial = 16;
    for (int rows_now = 1; rows_now <= max_rows_; rows_now = BatchBucket(rows_now + 1)) {
      partial = std::max(partial, static_cast<size_t>(writer_.Splits(rows_now, true)) *
                                      static_cast<size_t>(rows_now) *
                                      static_cast<size_t>(heads_.heads * (heads_.head_dim + 2)));
    }
    TM_RETURN_IF_ERROR(partial_.Allocate(partial * sizeof(float), "long contexts"));
    const size_t tiles =
        static_cast<size_t>(max_rows_) *
            (static_cast<size_t>(heads_.heads / heads_.kv_heads) / kCudaPrefillVectors + 1) +
        rows;
    step_bytes_ = sizeof(CudaStepHead) +
                  rows * (sizeof(CudaRow) + sizeof(CudaDraw) + sizeof(int32_t)) +
                  tiles * sizeof(CudaPrefillTile) + 64;
    const size_t context_pages = static_cast<size_t>(o_.max_context) / kCudaPageSlots + 2;
    step_bytes_ += rows * context_pages * sizeof(int32_t);
    TM_RETURN_IF_ERROR(meta_.Allocate(step_bytes_, "steps"));
    TM_RETURN_IF_ERROR(drawn_.Allocate(rows * sizeof(CudaDrawn), "draws"));
    return steps_.Allocate(step_bytes_, max_rows_);
  }

  Status MakeRotations() {
    const RopeFrequencies frequencies = ComputeRopeFrequencies(c_);
    const size_t half = frequencies.inverse.size();
    const size_t positions = static_cast<size_t>(o_.max_context);
    std::vector<float> cos(positions * half), sin(positions * half);
    for (size_t p = 0; p < positions; ++p) {
      for (size_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(p) * frequencies.inverse[i];
        cos[p * half + i] = std::cos(angle) * frequencies.attention_scaling;
        sin[p * half + i] = std::sin(angle) * frequencies.attention_scaling;
      }
    }
    const size_t bytes = cos.size() * sizeof(float);
    TM_RETURN_IF_ERROR(cos_.Allocate(bytes, "rotations"));
    TM_RETURN_IF_ERROR(sin_.Allocate(bytes, "rotations"));
    TM_CUDA(cudaMemcpy(cos_.as(), cos.data(), bytes, cudaMemcpyHostToDevice));
    TM_CUDA(cudaMemcpy(sin_.as(), sin.data(), bytes, cudaMemcpyHostToDevice));
    return Ok();
  }

  Status Tune(int rows) {
    TM_CUDA(cudaMemsetAsync(x_.as(), 0, static_cast<size_t>(rows * c_.hidden_size) * 4, stream_));
    std::vector<const void*> qkv, o, gate_up, down;
    for (const DecoderLayer& layer : named_.layers) {
      qkv.push_back(layer.qkv);
      o.push_back(layer.o);
      gate_up.push_back(layer.gate_up);
      down.push_back(layer.down);
    }
    const DecoderLayer& first = named_.layers.front();
    TM_RETURN_IF_ERROR(gemm_->Tune(shapes_.Qkv(rows), h_.as(), qkv, first.qkv_bias, qkv_.as()));
    TM_RETURN_IF_ERROR(gemm_->Tune(shapes_.O(rows), mixed_.as(), o, nullptr, x_.as()));
    TM_RETURN_IF_ERROR(
        gemm_->Tune(shapes_.GateUp(rows), h_.as(), gate_up, first.gate_up_bias, gate_up_.as()));
    return gemm_->Tune(shapes_.Down(rows), act_.as(), down, nullptr, x_.as());
  }

  Status TuneHead(int rows) {
    const int vocabulary = static_cast<int>(c_.vocab_size);
    const int columns = LogitColumns(rows, vocabulary);
    const std::vector<const void*> head{named_.head, named_.head};
    return gemm_->Tune(shapes_.Head(rows, std::min(columns, vocabulary), columns), final_.as(),
                       head, nullptr, logits_.as());
  }

  Status Capture(int bucket, bool deep) {
    const StepShape shape{.rows = bucket,
                          .decode_rows = bucket,
                          .tiles = 0,
                          .draws = bucket,
                          .selects = false,
                          .splits = writer_.Splits(bucket, deep)};
    // Once outside of a capture: cuBLASLt and the driver load what they need.
    TM_RETURN_IF_ERROR(Launch(shape));
    TM_CUDA(cudaStreamSynchronize(stream_));
    TM_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    const Status launched = Launch(shape);
    cudaGraph_t graph = nullptr;
    TM_CUDA(cudaStreamEndCapture(stream_, &graph));
    cudaGraphExec_t ready = nullptr;
    const Status made = launched.ok()
                            ? CudaStatus(cudaGraphInstantiate(&ready, graph, 0), "making a graph")
                            : launched;
    cudaGraphDestroy(graph);
    TM_RETURN_IF_ERROR(made);
    graphs_.emplace(std::pair(bucket, shape.splits > 1), ready);
    return Ok();
  }

  void LaunchCopies() {
    const size_t page_bytes = PageNumbers(c_) * bytes_;
    CudaCopyPages({.pool = pool_.as(),
                   .layer_bytes = page_bytes * static_cast<size_t>(o_.pages),
                   .page_bytes = page_bytes,
                   .layers = static_cast<int>(c_.num_layers),
                   .copies = &meta_.as<CudaStepHead>()->copies},
                  stream_);
  }

  Status FlushCopies() {
    TM_CUDA(cudaMemcpyAsync(meta_.as(), steps_.next().host, sizeof(CudaStepHead),
                            cudaMemcpyHostToDevice, stream_));
    LaunchCopies();
    TM_CUDA(cudaStreamSynchronize(stream_));
    steps_.next().head()->copies.count = 0;
    return CudaStatus(cudaGetLastError(), "copying pages");
  }

  // Everything a step does on the device.
  Status Launch(const StepShape& s) {
    const StepLayout at(s.rows, s.draws, s.selects, s.tiles);
    LaunchCopies();
    const char* meta = meta_.as<char>() + sizeof(CudaStepHead);
    const auto* rows = reinterpret_cast<const CudaRow*>(meta);
    const auto* pages = reinterpret_cast<const int32_t*>(meta + at.pages_at);
    CudaEmbed({.type = o_.type,
               .rows = rows,
               .count = s.rows,
               .drawn = drawn_.as<CudaDrawn>(),
               .table = named_.embed,
               .width = static_cast<int>(c_.hidden_size),
               .x = x_.as<float>()},
              stream_);
    const void* pending_bias = nullptr;  // of the product before, added where it is next read
    for (size_t i = 0; i < named_.layers.size(); ++i) {
      const DecoderLayer& layer = named_.layers[i];
      Norm(layer.input_norm, pending_bias, nullptr, s.rows, h_.as());
      TM_RETURN_IF_ERROR(
          gemm_->Run(shapes_.Qkv(s.rows), h_.as(), layer.qkv, layer.qkv_bias, qkv_.as()));
      Attend(i, s, rows, pages, reinterpret_cast<const CudaPrefillTile*>(meta + at.tiles_at));
      TM_RETURN_IF_ERROR(gemm_->Run(shapes_.O(s.rows), mixed_.as(), layer.o, nullptr, x_.as()));
      Norm(layer.post_norm, layer.o_bias, nullptr, s.rows, h_.as());
      TM_RETURN_IF_ERROR(gemm_->Run(shapes_.GateUp(s.rows), h_.as(), layer.gate_up,
                                    layer.gate_up_bias, gate_up_.as()));
      CudaSwiGlu(o_.type, gate_up_.as(), s.rows, static_cast<int>(c_.intermediate_size), act_.as(),
                 stream_);
      TM_RETURN_IF_ERROR(gemm_->Run(shapes_.Down(s.rows), act_.as(), layer.down, nullptr, x_.as()));
      pending_bias = layer.down_bias;
    }
    const auto* select =
        s.selects ? reinterpret_cast<const int32_t*>(meta + at.select_at) : nullptr;
    Norm(named_.norm, pending_bias, select, s.draws, final_.as());
    return Draw(s.draws, reinterpret_cast<const CudaDraw*>(meta + at.draws_at));
  }

  void Norm(const void* weight, const void* bias, const int32_t* select, int rows, void* out) {
    CudaNorm({.type = o_.type,
              .x = x_.as<float>(),
              .weight = weight,
              .bias = bias,
              .select = select,
              .out = out,
              .rows = rows,
              .width = static_cast<int>(c_.hidden_size),
              .eps = static_cast<float>(c_.rms_norm_eps)},
             stream_);
  }

  void Attend(size_t index, const StepShape& s, const CudaRow* rows, const int32_t* pages,
              const CudaPrefillTile* tiles) {
    const DecoderLayer& layer = named_.layers[index];
    char* cache =
        pool_.as<char>() + index * PageNumbers(c_) * bytes_ * static_cast<size_t>(o_.pages);
    const bool fast = CudaFastAttention(heads_);
    const bool own = fast && s.tiles == 0 && layer.q_norm == nullptr;  // attention rotates itself
    if (!own) {
      CudaRotate({.heads = heads_,
                  .qkv = qkv_.as(),
                  .rows = rows,
                  .pages = pages,
                  .count = s.rows,
                  .q_norm = layer.q_norm,
                  .k_norm = layer.k_norm,
                  .eps = static_cast<float>(c_.rms_norm_eps),
                  .cos = cos_.as<float>(),
                  .sin = sin_.as<float>(),
                  .cache = cache},
                 stream_);
    }
    const CudaAttentionArgs args{.heads = heads_,
                                 .qkv = qkv_.as(),
                                 .out = mixed_.as(),
                                 .rows = rows,
                                 .pages = pages,
                                 .count = fast ? s.decode_rows : s.rows,
                                 .cache = cache,
                                 .splits = s.splits,
                                 .partial = partial_.as<float>(),
                                 .cos = own ? cos_.as<float>() : nullptr,
                                 .sin = own ? sin_.as<float>() : nullptr};
    CudaDecodeAttention(args, stream_);
    if (fast) CudaPrefillAttention(args, tiles, s.tiles, stream_);
  }

  Status Draw(int count, const CudaDraw* draws) {
    const int vocabulary = static_cast<int>(c_.vocab_size);
    const int stride = LogitColumns(count, vocabulary);
    for (int first = 0; first < vocabulary; first += stride) {
      const int columns = std::min(stride, vocabulary - first);
      const auto* head = static_cast<const char*>(named_.head) +
                         static_cast<size_t>(first) * static_cast<size_t>(c_.hidden_size) * bytes_;
      TM_RETURN_IF_ERROR(gemm_->Run(shapes_.Head(count, columns, stride), final_.as(), head,
                                    nullptr, logits_.as()));
      CudaDrawParts({.logits = logits_.as<float>(),
                     .stride = stride,
                     .draws = draws,
                     .count = count,
                     .first_column = first,
                     .columns = columns,
                     .parts = parts_buffer_.as<CudaPart>(),
                     .part_stride = parts_},
                    stream_);
    }
    CudaDrawFinish({.parts = parts_buffer_.as<CudaPart>(),
                    .part_stride = parts_,
                    .part_count = parts_,
                    .draws = draws,
                    .count = count,
                    .drawn = drawn_.as<CudaDrawn>(),
                    .told = steps_.told_device(),
                    .told_stride = steps_.told_stride(),
                    .told_block = &meta_.as<CudaStepHead>()->told_block},
                   stream_);
    return CudaStatus(cudaGetLastError(), "starting a step");
  }

  const ModelConfig c_;
  const CudaDecoderOptions o_;
  const WeightLayout layout_;
  const CudaHeads heads_;
  const DecoderShapes shapes_;
  const size_t bytes_;  // of a number
  const int max_rows_;
  const int parts_;  // of a row of logits
  StepWriter writer_;

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CudaGemm> gemm_;
  CudaBuffer weights_, pool_, cos_, sin_;
  CudaBuffer x_, h_, final_, qkv_, mixed_, gate_up_, act_, logits_, parts_buffer_, partial_;
  CudaBuffer meta_;
  DecoderWeights named_;
  std::map<std::pair<int, bool>, cudaGraphExec_t> graphs_;  // by batch size and long contexts

  StepsUnderWay steps_;
  size_t step_bytes_ = 0;  // of the largest step, in meta_ and on the host
  CudaBuffer drawn_;       // by the last step, for the next
};

CudaDecoder::CudaDecoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CudaDecoder::~CudaDecoder() = default;

Result<std::unique_ptr<CudaDecoder>> CudaDecoder::New(const ModelConfig& config,
                                                      const CudaDecoderOptions& options) {
  if (config.hidden_size % 4 != 0 || config.intermediate_size % 4 != 0 || config.head_dim > 256 ||
      config.head_dim % 8 != 0) {
    return Invalid(
        "a GPU engine needs widths that are multiples of 4 and heads of a multiple of 8 up to 256");
  }
  auto impl = std::make_unique<Impl>(config, options);
  TM_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<CudaDecoder>(new CudaDecoder(std::move(impl)));
}

const WeightLayout& CudaDecoder::layout() const {
  return impl_->layout();
}
void* CudaDecoder::weights() const {
  return impl_->weights();
}
Status CudaDecoder::Prepare() {
  return impl_->Prepare();
}
Status CudaDecoder::TakeWeights(const void* block) {
  return impl_->TakeWeights(block);
}
Status CudaDecoder::WaitForDevice() {
  return impl_->WaitForDevice();
}
Status CudaDecoder::CopyPage(int32_t from, int32_t to) {
  return impl_->CopyPage(from, to);
}
Status CudaDecoder::Start(std::span<const CudaSegment> segments) {
  return impl_->Start(segments);
}
Status CudaDecoder::Finish(std::span<CudaDrawn> drawn) {
  return impl_->Finish(drawn);
}
Status CudaDecoder::Logits(size_t segment, std::vector<float>& logits) {
  return impl_->Logits(segment, logits);
}

size_t CudaDecoder::PageBytes(const ModelConfig& config, CudaType type) {
  return PageNumbers(config) * CudaTypeBytes(type) * static_cast<size_t>(config.num_layers);
}

}  // namespace tidemill
