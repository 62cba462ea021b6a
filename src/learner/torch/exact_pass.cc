#include "learner/torch/exact_pass.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "engine/torch/cpu_pages.h"
#include "learner/torch/fused_decoder.h"

namespace tidemill {
namespace {

using at::Tensor;

constexpr int64_t kExactRows = 96;  // that are multiplied at a time
constexpr int64_t kLogitRows = 48;  // the same with the head

float* Numbers(const Tensor& tensor) {
  return tensor.data_ptr<float>();
}

// Calls work(first, rows) for blocks of `most` rows, on all threads.
template <typename Work>
void InBlocks(int64_t rows, int64_t most, const Work& work) {
  const int64_t blocks = (rows + most - 1) / most;
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      work(b * most, std::min(most, rows - b * most));
    }
  });
}

struct DrawnToken {
  int64_t id;
  float temperature;
};

// As DrawToken (engine/cpu/sampler.cc).
float LogprobAsDrawn(const CpuKernels& kernels, const float* logits, int64_t width,
                     const DrawnToken& token, float* exps) {
  const float scale = 1.0f / token.temperature;
  float top = 0;
  const float sum = kernels.exp_row(logits, width, scale, exps, &top);
  return static_cast<float>((static_cast<double>(logits[token.id]) - top) * scale -
                            std::log(static_cast<double>(sum)));
}

class ValueOfOther : public torch::autograd::Function<ValueOfOther> {
 public:
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& exact,
                        const Tensor& differentiable) {
    TM_CHECK(exact.sizes() == differentiable.sizes(), "both are of the same tokens");
    return exact.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {Tensor(), grads[0]};
  }
};

}  // namespace

Tensor WithGradientOf(const Tensor& exact, const Tensor& differentiable) {
  return ValueOfOther::apply(exact, differentiable);
}

ExactPass::ExactPass(const ModelConfig& config, const ModelTensorsView& view)
    : config_(config), view_(view), kernels_(BestCpuKernels()), plan_(PlanDecoder(config)) {}
ExactPass::~ExactPass() = default;

void ExactPass::Begin(const SegmentedPack& pack) {
  if (packed_.layers.empty()) packed_ = PackView(view_, config_, kernels_);
  pack_ = &pack;
  const int64_t positions = *std::max_element(pack.positions.begin(), pack.positions.end()) + 1;
  if (positions > rotated_) {
    rotations_.clear();
    for (const RopeConfig& rope : plan_.ropes) {
      rotations_.push_back(MakeRopeTable(rope, config_.head_dim, positions));
    }
    rotated_ = positions;
  }
  pages_.assign(pack.segments.size(), {});
  segment_of_.assign(pack.tokens.size(), 0);
  int next = 0;
  for (size_t s = 0; s < pack.segments.size(); ++s) {
    const Segment& segment = pack.segments[s];
    int64_t before = 0;
    if (segment.parent >= 0) {
      const auto parent = static_cast<size_t>(segment.parent);
      before = pack.segments[parent].length;
      const auto whole = static_cast<std::ptrdiff_t>(before / kPageSlots);
      pages_[s].assign(pages_[parent].begin(), pages_[parent].begin() + whole);
    }
    const int64_t tokens = before + segment.length;
    while (static_cast<int64_t>(pages_[s].size()) * kPageSlots < tokens)
      pages_[s].push_back(next++);
    std::fill_n(segment_of_.begin() + segment.start, segment.length, static_cast<int32_t>(s));
  }
  const CpuPageShape shape(config_);
  pool_.Reserve(static_cast<size_t>(next) * static_cast<size_t>(shape.keys + shape.values));
}

void ExactPass::Norm(const Tensor& x, const Tensor& gains, const Tensor& out) const {
  const int64_t width = x.size(1);
  InBlocks(x.size(0), kExactRows, [&](int64_t first, int64_t rows) {
    kernels_.rms_norm(Numbers(x) + first * width, Numbers(gains), Eps(), rows, width, width,
                      Numbers(out) + first * width);
  });
}

void ExactPass::Multiply(const PackedMatrix& matrix, const Tensor& x, const Tensor& y,
                         bool add) const {
  const int64_t width = y.size(1), in = x.size(1), whole = matrix.panels * kernels_.panel;
  InBlocks(x.size(0), kExactRows, [&](int64_t first, int64_t rows) {
    MatmulArgs args{.a = Numbers(x) + first * in,
                    .packed = matrix.values.data(),
                    .bias = matrix.bias.data(),
                    .c = Numbers(y) + first * width,
                    .rows = rows,
                    .k = matrix.k,
                    .panels = matrix.panels,
                    .lda = in,
                    .ldc = width,
                    .mode = add ? MatmulMode::kAdd : MatmulMode::kStore};
    if (whole == width) return kernels_.matmul(args);
    // Whole panels are written.
    FloatBuffer padded(static_cast<size_t>(rows * whole));
    for (int64_t r = 0; add && r < rows; ++r) {
      std::copy_n(args.c + r * width, width, padded.data() + r * whole);
    }
    float* to = args.c;
    args.c = padded.data();
    args.ldc = whole;
    kernels_.matmul(args);
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(padded.data() + r * whole, width, to + r * width);
    }
  });
}

void ExactPass::Qkv(size_t layer, const Tensor& x, const Tensor& projected) const {
  Multiply(packed_.layers[layer].qkv, x, projected, false);
}

void ExactPass::O(size_t layer, const Tensor& attended, const Tensor& x, bool add) const {
  Multiply(packed_.layers[layer].o, attended, x, add);
}

void ExactPass::Down(size_t layer, const Tensor& act, const Tensor& x, bool add) const {
  Multiply(packed_.layers[layer].down, act, x, add);
}

void ExactPass::GateUp(size_t layer, const Tensor& h, const Tensor& gated,
                       const Tensor& act) const {
  const PackedMatrix& matrix = packed_.layers[layer].gate_up;
  const int64_t inner = act.size(1), in = h.size(1), half = kernels_.panel / 2;
  const int64_t whole = matrix.panels * kernels_.panel, active = matrix.panels * half;
  const MatmulMode mode =
      plan_.activation == Activation::kSilu ? MatmulMode::kSwiGlu : MatmulMode::kGeGlu;
  InBlocks(h.size(0), kExactRows, [&](int64_t first, int64_t rows) {
    FloatBuffer pairs(static_cast<size_t>(rows * whole));
    FloatBuffer activated(static_cast<size_t>(rows * active));
    kernels_.matmul({.a = Numbers(h) + first * in,
                     .packed = matrix.values.data(),
                     .bias = matrix.bias.data(),
                     .c = pairs.data(),
                     .rows = rows,
                     .k = matrix.k,
                     .panels = matrix.panels,
                     .lda = in,
                     .ldc = whole,
                     .mode = MatmulMode::kStore});
    kernels_.gate(mode, pairs.data(), rows, matrix.panels, activated.data(), active);
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(activated.data() + r * active, inner, Numbers(act) + (first + r) * inner);
      float* gate = Numbers(gated) + (first + r) * 2 * inner;
      for (int64_t i = 0; i < inner; i += half) {
        const int64_t count = std::min(half, inner - i);
        const float* pair = pairs.data() + r * whole + 2 * i;
        std::copy_n(pair, count, gate + i);
        std::copy_n(pair + half, count, gate + inner + i);
      }
    }
  });
}

void ExactPass::RotateRows(size_t layer, int64_t first, int64_t last) {
  const LayerPlan& plan = plan_.layers[layer];
  const PackedLayer& packed = packed_.layers[layer];
  const CpuPageShape shape(config_);
  const long q = config_.q_size(), kv = config_.kv_size(), width = q + 2 * kv;
  const RopeTable& rotation = rotations_[static_cast<size_t>(plan.rope)];
  const bool by_head = plan.qk_norm == QueryKeyNorm::kByHead;
  for (int64_t t = first; t < last; ++t) {
    float* row = qkv_.data() + t * width;
    if (plan.qk_norm == QueryKeyNorm::kWhole) {
      kernels_.rms_norm(row, packed.q_norm.data(), Eps(), 1, q, width, row);
      kernels_.rms_norm(row + q, packed.k_norm.data(), Eps(), 1, kv, width, row + q);
    }
    const auto place = static_cast<size_t>(t);
    const int64_t position = pack_->positions[place], slot = position % kPageSlots;
    const auto& pages = pages_[static_cast<size_t>(segment_of_[place])];
    float* page = pool_.data() +
                  pages[static_cast<size_t>(position / kPageSlots)] * (shape.keys + shape.values);
    const long half = config_.head_dim / 2;
    kernels_.rotate({.qkv = row,
                     .q_norm = by_head ? packed.q_norm.data() : nullptr,
                     .k_norm = by_head ? packed.k_norm.data() : nullptr,
                     .eps = Eps(),
                     .cos = rotation.cos.data() + position * half,
                     .sin = rotation.sin.data() + position * half,
                     .q_scale = static_cast<float>(plan_.attention_scale),
                     .keys = page + slot,
                     .values = page + shape.keys + slot * shape.value_stride,
                     .heads = static_cast<int>(config_.num_heads),
                     .kv_heads = static_cast<int>(config_.num_kv_heads),
                     .head_dim = static_cast<int>(config_.head_dim),
                     .value_stride = static_cast<int>(shape.value_stride)});
  }
}

void ExactPass::Attend(size_t layer, const Tensor& projected, const Tensor& attended) {
  const CpuPageShape shape(config_);
  const long page = shape.keys + shape.values;
  const long q = config_.q_size(), width = q + 2 * config_.kv_size();
  const int64_t n = projected.size(0);
  qkv_.Reserve(static_cast<size_t>(n * width));
  std::copy_n(Numbers(projected), n * width, qkv_.data());
  const std::vector<Segment>& segments = pack_->segments;
  // A child's first page may begin with the end of its parent's, which has to be there.
  for (const bool children : {false, true}) {
    for (size_t s = 0; s < segments.size(); ++s) {
      if ((segments[s].parent >= 0) != children) continue;
      const int64_t before =
          children ? segments[static_cast<size_t>(segments[s].parent)].length : 0;
      if (before % kPageSlots != 0) {
        const auto split = static_cast<size_t>(before / kPageSlots);
        const int from = pages_[static_cast<size_t>(segments[s].parent)][split];
        std::copy_n(pool_.data() + from * page, page, pool_.data() + pages_[s][split] * page);
      }
      const int64_t start = segments[s].start;
      at::parallel_for(0, segments[s].length, 64, [&](int64_t first, int64_t last) {
        RotateRows(layer, start + first, start + last);
      });
    }
  }
  for (size_t s = 0; s < segments.size(); ++s) {
    const int64_t start = segments[s].start;
    InBlocks(segments[s].length, kExactRows, [&](int64_t first, int64_t rows) {
      const auto position = static_cast<long>(pack_->positions[static_cast<size_t>(start + first)]);
      const long longest = (position + rows + 63) / 64 * 64;
      FloatBuffer scratch(static_cast<size_t>(4 * longest + 8 * config_.head_dim + 64));
      const AttentionArgs args{.q = qkv_.data() + (start + first) * width,
                               .out = Numbers(attended) + (start + first) * q,
                               .pool = pool_.data(),
                               .pages = pages_[s].data(),
                               .page_stride = page,
                               .k_offset = 0,
                               .v_offset = shape.keys,
                               .heads = static_cast<int>(config_.num_heads),
                               .kv_heads = static_cast<int>(config_.num_kv_heads),
                               .head_dim = static_cast<int>(config_.head_dim),
                               .value_stride = static_cast<int>(shape.value_stride),
                               .length = static_cast<int>(position) + 1,
                               .window = static_cast<int>(plan_.layers[layer].window),
                               .next_pages = nullptr,
                               .next_length = 0,
                               .scratch = scratch.data()};
      kernels_.attention_rows(
          {.first = args, .rows = static_cast<int>(rows), .q_stride = width, .out_stride = q});
    });
  }
}

Tensor ExactPass::Logits(const Tensor& hidden) const {
  const at::NoGradGuard no_grad;
  const Tensor logits = at::empty({hidden.size(0), config_.vocab_size}, at::kFloat);
  Multiply(packed_.head, hidden.detach().contiguous(), logits, false);
  return logits;
}

Tensor ExactPass::LogprobsIn(const Tensor& logits, const Tensor& targets,
                             double temperature) const {
  const int64_t width = logits.size(1);
  const Tensor logprobs = at::empty({logits.size(0)}, at::kFloat);
  InBlocks(logits.size(0), kLogitRows, [&](int64_t first, int64_t rows) {
    FloatBuffer exps(static_cast<size_t>((width + 63) / 64 * 64));
    for (int64_t r = first; r < first + rows; ++r) {
      Numbers(logprobs)[r] = LogprobAsDrawn(
          kernels_, Numbers(logits) + r * width, width,
          {targets.data_ptr<int64_t>()[r], static_cast<float>(temperature)}, exps.data());
    }
  });
  return logprobs;
}

Tensor ExactPass::Logprobs(const Tensor& hidden, const Tensor& targets, double temperature,
                           const Tensor& temperatures) const {
  const at::NoGradGuard no_grad;
  const PackedMatrix& head = packed_.head;
  const long vocabulary = config_.vocab_size, whole = head.panels * kernels_.panel;
  const Tensor rows_of = hidden.detach().contiguous();
  const Tensor logprobs = at::empty({hidden.size(0)}, at::kFloat);
  const int64_t* target = targets.data_ptr<int64_t>();
  InBlocks(hidden.size(0), kLogitRows, [&](int64_t first, int64_t rows) {
    FloatBuffer logits(static_cast<size_t>(rows * whole));
    FloatBuffer exps(static_cast<size_t>((vocabulary + 63) / 64 * 64));
    const long width = config_.hidden_size;
    kernels_.matmul({.a = Numbers(rows_of) + first * width,
                     .packed = head.values.data(),
                     .bias = nullptr,
                     .c = logits.data(),
                     .rows = rows,
                     .k = head.k,
                     .panels = head.panels,
                     .lda = width,
                     .ldc = whole,
                     .mode = MatmulMode::kStore});
    for (int64_t r = 0; r < rows; ++r) {
      const float of_row = temperatures.defined() ? Numbers(temperatures)[first + r]
                                                  : static_cast<float>(temperature);
      Numbers(logprobs)[first + r] = LogprobAsDrawn(kernels_, logits.data() + r * whole, vocabulary,
                                                    {target[first + r], of_row}, exps.data());
    }
  });
  return logprobs;
}

}  // namespace tidemill
