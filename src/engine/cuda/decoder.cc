#include "engine/cuda/decoder.h"

#include <algorithm>
#include <map>

#include "engine/cuda/adapter_products.h"
#include "engine/cuda/decoder_memory.h"
#include "engine/cuda/decoder_shapes.h"
#include "engine/cuda/decoder_weights.h"
#include "engine/cuda/draw_masks.h"
#include "engine/cuda/gemm.h"
#include "engine/cuda/step_layout.h"
#include "engine/cuda/steps_under_way.h"
#include "model/cuda/check.h"
#include "model/layer_plan.h"

namespace tidemill {
namespace {

constexpr int kTunedRows = 2048;  // steps with more rows, of long prompts, take the first product
// Products are timed on the weights of so many layers that none of them is still in the cache when
// its turn comes again; more only make the start longer.
constexpr size_t kTunedBytes = size_t{512} << 20;
constexpr size_t kTunedLayersLeast = 4;

}  // namespace

class CudaDecoder::Impl {
 public:
  Impl(const ModelConfig& config, const CudaDecoderOptions& options)
      : c_(config),
        plan_(PlanDecoder(config)),
        o_(options),
        layout_(MakeWeightLayout(config)),
        heads_{.type = options.type,
               .heads = static_cast<int>(config.num_heads),
               .kv_heads = static_cast<int>(config.num_kv_heads),
               .head_dim = static_cast<int>(config.head_dim)},
        shapes_{.config = c_,
                .type = options.type,
                .qkv_width = heads_.QkvWidth(),
                .attention_apart = !plan_.layers.front().attention_out.empty(),
                .mlp_apart = !plan_.layers.front().mlp_out.empty()},
        bytes_(CudaTypeBytes(options.type)),
        max_rows_(BatchBucket(std::max(options.max_rows, options.max_decode_rows))),
        parts_((static_cast<int>(config.vocab_size) + kCudaPartColumns - 1) / kCudaPartColumns),
        writer_({.heads = heads_,
                 .max_rows = max_rows_,
                 .max_decode_rows = options.max_decode_rows,
                 .cuts = CudaFastAttention(heads_)}),
        adapter_(MakeAdapterLayout(config, options.adapter), options.type) {}

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
    if (o_.shared_weights == nullptr) {
      TM_RETURN_IF_ERROR(own_weights_.Allocate(layout_.numbers * bytes_, "weights"));
    }
    TM_RETURN_IF_ERROR(m_.Allocate(c_,
                                   {.heads = heads_,
                                    .max_rows = max_rows_,
                                    .pages = o_.pages,
                                    .max_context = o_.max_context,
                                    .parts = parts_},
                                   writer_));
    TM_RETURN_IF_ERROR(adapter_.Allocate(max_rows_, c_.num_layers));
    TM_RETURN_IF_ERROR(steps_.Allocate(m_.step_bytes, max_rows_));
    TM_RETURN_IF_ERROR(masks_.Allocate(c_.vocab_size));
    const void* block = o_.shared_weights != nullptr ? o_.shared_weights : own_weights_.as();
    named_ = PlaceWeights(c_, layout_, block, bytes_);
    // The memory was set to zero on another stream.
    return WaitForDevice();
  }

  const WeightLayout& layout() const { return layout_; }
  const AdapterLayout& adapter_layout() const { return adapter_.layout(); }
  void* own_weights() const { return own_weights_.as(); }

  Status Prepare() {
    TM_CUDA(cudaSetDevice(o_.device));
    TM_RETURN_IF_ERROR(WaitForDevice());
    // Rows of padding, so that what is tuned and captured touches no page.
    const StepsUnderWay::Step& step = steps_.next();
    auto* rows = reinterpret_cast<CudaRow*>(step.rows());
    for (int r = 0; r < max_rows_; ++r) rows[r] = CudaRow{};
    TM_CUDA(
        cudaMemcpyAsync(m_.meta.as(), step.host, m_.step_bytes, cudaMemcpyHostToDevice, stream_));
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
    TM_CHECK(o_.shared_weights == nullptr, "what is shared is never written to");
    TM_CUDA(cudaSetDevice(o_.device));
    CudaCopyBlock(block, own_weights_.as(), layout_.numbers * bytes_, stream_);
    TM_CUDA(cudaGetLastError());
    TM_CUDA(cudaStreamSynchronize(stream_));
    return Ok();
  }

  Status TakeAdapter(const void* block) {
    TM_CUDA(cudaSetDevice(o_.device));
    adapter_.Take(block, stream_);
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

  int32_t AddMask(const TokenMask& mask) { return masks_.Add(mask); }

  Status Start(std::span<const CudaSegment> segments) {
    TM_CHECK(!steps_.full(), "there is a place for another step");
    TM_CUDA(cudaSetDevice(o_.device));
    StepsUnderWay::Step& step = steps_.next();
    const StepShape shape = writer_.Write(segments, step.rows());
    step.draws = writer_.draws();
    TM_CUDA(cudaMemcpyAsync(m_.meta.as(), step.host, sizeof(CudaStepHead) + writer_.bytes(),
                            cudaMemcpyHostToDevice, stream_));
    TM_RETURN_IF_ERROR(masks_.Upload(stream_));
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
    const auto* h = static_cast<const char*>(m_.final.as()) + row * bytes_;
    TM_RETURN_IF_ERROR(gemm_->Run(shapes_.Head(1, vocabulary, vocabulary), h, named_.head, nullptr,
                                  m_.logits.as()));
    logits.resize(static_cast<size_t>(vocabulary));
    TM_CUDA(cudaMemcpyAsync(logits.data(), m_.logits.as(), logits.size() * sizeof(float),
                            cudaMemcpyDeviceToHost, stream_));
    TM_CUDA(cudaStreamSynchronize(stream_));
    return Ok();
  }

 private:
  Status Tune(int rows) {
    TM_CUDA(cudaMemsetAsync(m_.x.as(), 0, static_cast<size_t>(rows * c_.hidden_size) * 4, stream_));
    for (const LayerProduct product :
         {LayerProduct::kQkv, LayerProduct::kO, LayerProduct::kGateUp, LayerProduct::kDown}) {
      const GemmShape shape = shapes_.Of(product, rows);
      const size_t bytes = static_cast<size_t>(shape.n) * static_cast<size_t>(shape.k) * bytes_;
      std::vector<const void*> weights;
      for (const DecoderLayer& layer : named_.layers) {
        if (weights.size() >= kTunedLayersLeast && weights.size() * bytes >= kTunedBytes) break;
        weights.push_back(layer.Of(product).weight);
      }
      const AdapterProducts::Rows of = RowsOf(product, rows);
      TM_RETURN_IF_ERROR(
          gemm_->Tune(shape, of.x, weights, named_.layers.front().Of(product).bias, of.out));
      TM_RETURN_IF_ERROR(adapter_.Tune(*gemm_, product, of));
    }
    return Ok();
  }

  Status TuneHead(int rows) {
    const int vocabulary = static_cast<int>(c_.vocab_size);
    const int columns = LogitColumns(rows, vocabulary);
    const std::vector<const void*> head{named_.head, named_.head};
    return gemm_->Tune(shapes_.Head(rows, std::min(columns, vocabulary), columns), m_.final.as(),
                       head, nullptr, m_.logits.as());
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
    // Now, while there is memory for it: a learner may take the rest.
    TM_CUDA(cudaGraphUpload(ready, stream_));
    graphs_.emplace(std::pair(bucket, shape.splits > 1), ready);
    return Ok();
  }

  void LaunchCopies() {
    const size_t page_bytes = CudaPageNumbers(c_) * bytes_;
    CudaCopyPages({.pool = m_.pool.as(),
                   .layer_bytes = page_bytes * static_cast<size_t>(o_.pages),
                   .page_bytes = page_bytes,
                   .layers = static_cast<int>(c_.num_layers),
                   .copies = &m_.meta.as<CudaStepHead>()->copies},
                  stream_);
  }

  Status FlushCopies() {
    TM_CUDA(cudaMemcpyAsync(m_.meta.as(), steps_.next().host, sizeof(CudaStepHead),
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
    const char* meta = m_.meta.as<char>() + sizeof(CudaStepHead);
    const auto* rows = reinterpret_cast<const CudaRow*>(meta);
    const auto* pages = reinterpret_cast<const int32_t*>(meta + at.pages_at);
    CudaEmbed({.type = o_.type,
               .rows = rows,
               .count = s.rows,
               .drawn = m_.drawn.as<CudaDrawn>(),
               .table = named_.embed,
               .width = static_cast<int>(c_.hidden_size),
               .scale = static_cast<float>(plan_.embedding_scale),
               .x = m_.x.as<float>()},
              stream_);
    const void* pending_bias = nullptr;  // of the product before, added where it is next read
    for (size_t i = 0; i < named_.layers.size(); ++i) {
      const DecoderLayer& layer = named_.layers[i];
      NormIn(layer.attention_in, pending_bias, s.rows);
      TM_RETURN_IF_ERROR(Multiply(LayerProduct::kQkv, i, s.rows));
      Attend(i, s, rows, pages, reinterpret_cast<const CudaPrefillTile*>(meta + at.tiles_at));
      TM_RETURN_IF_ERROR(Multiply(LayerProduct::kO, i, s.rows));
      NormIn(layer.mlp_in, NormOut(layer.attention_out, layer.o_bias, s.rows), s.rows);
      TM_RETURN_IF_ERROR(Multiply(LayerProduct::kGateUp, i, s.rows));
      CudaGate(plan_.activation, o_.type, m_.gate_up.as(), s.rows,
               static_cast<int>(c_.intermediate_size), m_.act.as(), stream_);
      TM_RETURN_IF_ERROR(Multiply(LayerProduct::kDown, i, s.rows));
      pending_bias = NormOut(layer.mlp_out, layer.down_bias, s.rows);
    }
    const auto* select =
        s.selects ? reinterpret_cast<const int32_t*>(meta + at.select_at) : nullptr;
    Norm(named_.norm, pending_bias, select, s.draws, m_.final.as());
    return Draw(s.draws, reinterpret_cast<const CudaDraw*>(meta + at.draws_at));
  }

  // The inputs and outputs of a product.
  AdapterProducts::Rows RowsOf(LayerProduct product, int rows) const {
    const bool h = product == LayerProduct::kQkv || product == LayerProduct::kGateUp;
    if (h) {
      return {.count = rows,
              .x = m_.h.as(),
              .out = product == LayerProduct::kQkv ? m_.qkv.as() : m_.gate_up.as(),
              .wide = false};
    }
    const bool o = product == LayerProduct::kO;
    const bool apart = o ? shapes_.attention_apart : shapes_.mlp_apart;
    return {.count = rows,
            .x = o ? m_.mixed.as() : m_.act.as(),
            .out = apart ? m_.apart.as() : m_.x.as(),
            .wide = true};
  }

  Status Multiply(LayerProduct product, size_t layer, int rows) {
    const AdapterProducts::Rows of = RowsOf(product, rows);
    const DecoderLayer::Product& with = named_.layers[layer].Of(product);
    TM_RETURN_IF_ERROR(gemm_->Run(shapes_.Of(product, rows), of.x, with.weight, with.bias, of.out));
    return adapter_.Add(*gemm_, product, layer, of);
  }

  // The input of a product: rows after a norm, or where there is none as they are.
  void NormIn(const void* weight, const void* bias, int rows) {
    if (weight != nullptr) return Norm(weight, bias, nullptr, rows, m_.h.as());
    CudaNarrow(o_.type, m_.x.as<float>(), rows * c_.hidden_size, m_.h.as(), stream_);
  }

  // Adds a product that came out by itself to the rows, after its norm. Gives the bias that is
  // still to be added.
  const void* NormOut(const void* weight, const void* bias, int rows) {
    if (weight == nullptr) return bias;
    CudaAddNorm({.type = o_.type,
                 .from = m_.apart.as<float>(),
                 .weight = weight,
                 .bias = bias,
                 .x = m_.x.as<float>(),
                 .rows = rows,
                 .width = static_cast<int>(c_.hidden_size),
                 .eps = static_cast<float>(plan_.norm_eps),
                 .offset = static_cast<float>(plan_.norm_offset)},
                stream_);
    return nullptr;
  }

  void Norm(const void* weight, const void* bias, const int32_t* select, int rows, void* out) {
    CudaNorm({.type = o_.type,
              .x = m_.x.as<float>(),
              .weight = weight,
              .bias = bias,
              .select = select,
              .out = out,
              .rows = rows,
              .width = static_cast<int>(c_.hidden_size),
              .eps = static_cast<float>(plan_.norm_eps),
              .offset = static_cast<float>(plan_.norm_offset)},
             stream_);
  }

  void Attend(size_t index, const StepShape& s, const CudaRow* rows, const int32_t* pages,
              const CudaPrefillTile* tiles) {
    const DecoderLayer& layer = named_.layers[index];
    const LayerPlan& plan = plan_.layers[index];
    const DecoderMemory::Rotation& rotation = m_.rotations[static_cast<size_t>(plan.rope)];
    char* cache =
        m_.pool.as<char>() + index * CudaPageNumbers(c_) * bytes_ * static_cast<size_t>(o_.pages);
    const bool fast = CudaFastAttention(heads_);
    const bool own = fast && s.tiles == 0 && layer.q_norm == nullptr;  // attention rotates itself
    if (!own) {
      CudaRotate({.heads = heads_,
                  .qkv = m_.qkv.as(),
                  .rows = rows,
                  .pages = pages,
                  .count = s.rows,
                  .q_norm = layer.q_norm,
                  .k_norm = layer.k_norm,
                  .whole_norm = plan.qk_norm == QueryKeyNorm::kWhole,
                  .eps = static_cast<float>(plan_.norm_eps),
                  .offset = static_cast<float>(plan_.norm_offset),
                  .cos = rotation.cos.as<float>(),
                  .sin = rotation.sin.as<float>(),
                  .cache = cache},
                 stream_);
    }
    const CudaAttentionArgs args{.heads = heads_,
                                 .qkv = m_.qkv.as(),
                                 .out = m_.mixed.as(),
                                 .rows = rows,
                                 .pages = pages,
                                 .count = fast ? s.decode_rows : s.rows,
                                 .cache = cache,
                                 .scale = static_cast<float>(plan_.attention_scale),
                                 .window = static_cast<int>(plan.window),
                                 .splits = s.splits,
                                 .partial = m_.partial.as<float>(),
                                 .cos = own ? rotation.cos.as<float>() : nullptr,
                                 .sin = own ? rotation.sin.as<float>() : nullptr};
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
      TM_RETURN_IF_ERROR(gemm_->Run(shapes_.Head(count, columns, stride), m_.final.as(), head,
                                    nullptr, m_.logits.as()));
      CudaDrawParts({.logits = m_.logits.as<float>(),
                     .stride = stride,
                     .draws = draws,
                     .count = count,
                     .first_column = first,
                     .columns = columns,
                     .masks = masks_.device(),
                     .mask_words = masks_.words(),
                     .parts = m_.parts.as<CudaPart>(),
                     .part_stride = parts_},
                    stream_);
    }
    CudaDrawFinish({.parts = m_.parts.as<CudaPart>(),
                    .part_stride = parts_,
                    .part_count = parts_,
                    .draws = draws,
                    .count = count,
                    .drawn = m_.drawn.as<CudaDrawn>(),
                    .told = steps_.told_device(),
                    .told_stride = steps_.told_stride(),
                    .told_block = &m_.meta.as<CudaStepHead>()->told_block},
                   stream_);
    return CudaStatus(cudaGetLastError(), "starting a step");
  }

  const ModelConfig c_;
  const DecoderPlan plan_;
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
  CudaBuffer own_weights_;  // unless they are shared
  DecoderMemory m_;
  AdapterProducts adapter_;
  DecoderWeights named_;
  std::map<std::pair<int, bool>, cudaGraphExec_t> graphs_;  // by batch size and long contexts

  DrawMasks masks_;
  StepsUnderWay steps_;
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
void* CudaDecoder::own_weights() const {
  return impl_->own_weights();
}
const AdapterLayout& CudaDecoder::adapter_layout() const {
  return impl_->adapter_layout();
}
Status CudaDecoder::Prepare() {
  return impl_->Prepare();
}
Status CudaDecoder::TakeWeights(const void* block) {
  return impl_->TakeWeights(block);
}
Status CudaDecoder::TakeAdapter(const void* block) {
  return impl_->TakeAdapter(block);
}
Status CudaDecoder::WaitForDevice() {
  return impl_->WaitForDevice();
}
int32_t CudaDecoder::AddMask(const TokenMask& mask) {
  return impl_->AddMask(mask);
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
  return CudaPageNumbers(config) * CudaTypeBytes(type) * static_cast<size_t>(config.num_layers);
}

}  // namespace tidemill
