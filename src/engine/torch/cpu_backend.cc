// A step on the CPU: all rows go through a layer in blocks small enough to stay in the cache, by
// hand- written kernels instead of tensor operations, which cost more than the arithmetic at this
// size.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>

#include "engine/cpu/controlled_draw.h"
#include "engine/cpu/worker_team.h"
#include "engine/decode_backend.h"
#include "engine/torch/adapter_sums.h"
#include "engine/torch/cpu_experts.h"
#include "engine/torch/cpu_pages.h"
#include "engine/torch/cpu_policies.h"
#include "model/layer_plan.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

constexpr long kBlockRows = 96;
constexpr size_t kCutRows = 32;  // with fewer, threads wait longer for one another than they save

struct PackedReady final : ReadyWeights {
  PackedPolicy packed;
};

class CpuBackend final : public DecodeBackend {
 public:
  CpuBackend(const PolicyWeights& weights, const BackendOptions& options)
      : kernels_(BestCpuKernels()),
        config_(weights.config()),
        plan_(PlanDecoder(config_)),
        shape_(config_),
        choices_(static_cast<size_t>(plan_.ChoicesOfToken())),
        pool_(static_cast<size_t>(options.pages) * static_cast<size_t>(shape_.page)),
        routing_(static_cast<size_t>(options.pages) * kPageSlots * choices_),
        packer_(kernels_, options.int8_weights),
        places_(static_cast<size_t>(options.versions + options.adapters)),
        team_(options.threads) {
    places_[0] = packer_.Pack(weights);
    work_.resize(static_cast<size_t>(team_.size()));
    for (const RopeConfig& rope : plan_.ropes) {
      rotations_.push_back(MakeRopeTable(rope, config_.head_dim, options.max_context));
    }
  }

  Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> given) const override {
    const std::shared_ptr<const PolicyWeights> weights = ToPolicyWeights(std::move(given));
    const ModelConfig& c = weights->config();
    if (c.family != config_.family || ExpectedTensors(c) != ExpectedTensors(config_) ||
        c.num_heads != config_.num_heads || c.num_kv_heads != config_.num_kv_heads) {
      return Invalid("the new weights have a different shape than the old ones");
    }
    auto ready = std::make_shared<PackedReady>();
    TM_RETURN_IF_ERROR(CatchTorchStatus("taking new weights", [&] {
      ready->packed = packer_.Pack(*weights);
      return Ok();
    }));
    return std::shared_ptr<ReadyWeights>(std::move(ready));
  }

  Status Take(ReadyWeights& ready, int32_t place) override {
    std::swap(places_[static_cast<size_t>(place)], static_cast<PackedReady&>(ready).packed);
    return Ok();
  }

  void CopyPage(PageId from, PageId to) override {
    std::memcpy(pool_.data() + to * shape_.page, pool_.data() + from * shape_.page,
                static_cast<size_t>(shape_.page) * sizeof(float));
    const size_t experts = kPageSlots * choices_;
    std::copy_n(routing_.data() + static_cast<size_t>(from) * experts, experts,
                routing_.data() + static_cast<size_t>(to) * experts);
  }

  // A step is done when it was started: there is no other device.
  Status Start(std::span<const StepSegment> given) override {
    std::vector<StepSegment> segments(given.begin(), given.end());
    for (StepSegment& s : segments) {
      if (s.after >= 0) s.tokens = std::span(&last_[static_cast<size_t>(s.after)], 1);
    }
    std::vector<Drawn> drawn(segments.size());
    ComputeByBase(segments, drawn);
    for (size_t i = 0; i < segments.size(); ++i) TellExperts(segments[i], drawn[i]);
    last_.clear();
    for (const Drawn& one : drawn) last_.push_back(std::max(one.id, 0));
    done_.push_back(std::move(drawn));
    return Ok();
  }

  Status Finish(std::span<Drawn> drawn) override {
    std::move(done_.front().begin(), done_.front().end(), drawn.begin());
    done_.pop_front();
    return Ok();
  }

  bool Foresees(const SamplingParams&) const override { return true; }
  bool ForeseesDraw(const StepSegment&) const override { return true; }
  bool Scores() const override { return true; }

 private:
  // One pass over each base; within it rows of one adapter are together. What a row gives does not
  // depend on the order.
  void ComputeByBase(std::span<const StepSegment> given, std::span<Drawn> drawn) {
    const std::vector<size_t> order = OrderByBase(places_, given);
    std::vector<StepSegment> segments;
    for (const size_t i : order) segments.push_back(given[i]);
    std::vector<Drawn> their(given.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      if (segments[i].score >= 0) their[i].scores.resize(segments[i].tokens.size());
    }
    const auto base_of = [&](size_t i) -> const PackedWeights& {
      return *places_[static_cast<size_t>(segments[i].weights)].base;
    };
    for (size_t first = 0, end = 0; first < segments.size(); first = end) {
      while (end < segments.size() && &base_of(end) == &base_of(first)) ++end;
      Compute(base_of(first), std::span(segments).subspan(first, end - first),
              std::span(their).subspan(first, end - first));
    }
    for (size_t i = 0; i < order.size(); ++i) drawn[order[i]] = std::move(their[i]);
  }

  void Compute(const PackedWeights& packed, std::span<const StepSegment> segments,
               std::span<Drawn> drawn) {
    const bool cut = Split(segments);
    for (Work& w : work_) w.states.clear();
    std::barrier<> together(team_.size());
    team_.Run([&](int worker) {
      Work& w = work_[static_cast<size_t>(worker)];
      if (cut || !w.pieces.empty()) RunPart(packed, drawn, w, cut ? &together : nullptr);
    });
    for (const Work& w : work_) {
      for (const auto& [slot, state] : w.states) {
        std::vector<float>& sum = drawn[slot].state;
        sum.resize(state.size());
        for (size_t i = 0; i < state.size(); ++i) sum[i] += state[i];
      }
    }
  }

  // A segment or a part of it.
  struct Piece {
    StepSegment segment;
    size_t slot;        // of the segment in the step
    size_t before = 0;  // rows of the segment in other pieces, in front of these
  };

  struct Row {
    const StepSegment* segment;
    TokenId token;
    int32_t position;
  };

  // A row whose logits are asked for.
  struct RowOut {
    long row;
    const Piece* piece;
    bool draw;            // a token is drawn
    TokenId next = -1;    // not negative: it is scored
    size_t score_at = 0;  // among the segment's scores
  };

  // What one thread needs; grows to the largest step seen.
  struct Work {
    std::vector<Piece> pieces;
    std::vector<Row> rows;
    std::vector<RowOut> outs;
    FloatBuffer x, h, qkv, mixed, act, logits, scores;
    AdapterSums adapters;
    ExpertMixer experts;
    SamplerScratch sampler;
    std::vector<std::pair<size_t, std::vector<float>>>
        states;  // by the segment's place in the step
  };

  // Gives the threads their pieces, about the same number of rows each. True: a segment was cut.
  // Then its later rows need the keys and values of earlier ones, layer by layer; it is done only
  // where it pays.
  bool Split(std::span<const StepSegment> segments) {
    size_t total = 0, longest = 0;
    for (const StepSegment& segment : segments) {
      total += segment.tokens.size();
      longest = std::max(longest, segment.tokens.size());
    }
    const size_t parts = work_.size();
    const bool cuts = longest > total / parts && longest >= kCutRows;
    for (Work& w : work_) w.pieces.clear();
    size_t seen = 0, part = 0;
    bool cut = false;
    for (size_t i = 0; i < segments.size(); ++i) {
      StepSegment rest = segments[i];
      while (true) {
        while (part + 1 < parts && seen * parts >= total * (part + 1)) ++part;
        const size_t room = (total * (part + 1) + parts - 1) / parts - seen;
        const size_t rows = rest.tokens.size();
        if (!cuts || rows <= room || part + 1 == parts) {
          work_[part].pieces.push_back({rest, i, segments[i].tokens.size() - rows});
          seen += rows;
          break;
        }
        work_[part].pieces.push_back({FirstRows(rest, room), i, segments[i].tokens.size() - rows});
        rest.tokens = rest.tokens.subspan(room);
        rest.first += static_cast<int32_t>(room);
        seen += room;
        cut = true;
      }
    }
    return cut;
  }

  static StepSegment FirstRows(StepSegment segment, size_t rows) {
    segment.next = segment.tokens[rows];
    segment.tokens = segment.tokens.first(rows);
    segment.draw = false;
    return segment;
  }

  // `start`: MatmulArgs'.
  void Multiply(const float* a, long lda, const PackedMatrix& matrix, long rows, float* c, long ldc,
                MatmulMode mode, const float* start = nullptr) const {
    MultiplyRows(kernels_, a, lda, matrix, rows, c, ldc, mode, start);
  }

  void LayOut(Work& w, bool cut) const {
    w.rows.clear();
    w.outs.clear();
    w.adapters.Clear();
    int32_t longest = 0;
    for (const Piece& piece : w.pieces) {
      const StepSegment& segment = piece.segment;
      int32_t position = segment.first;
      for (const TokenId token : segment.tokens) w.rows.push_back({&segment, token, position++});
      w.adapters.AddRows(places_[static_cast<size_t>(segment.weights)].adapter.get(),
                         segment.tokens.size());
      longest = std::max(longest, position);
      AskRows(piece, w);
    }
    const size_t block = static_cast<size_t>(kBlockRows);
    w.x.Reserve(w.rows.size() * static_cast<size_t>(Width()));
    w.h.Reserve(block * static_cast<size_t>(Width()));
    w.qkv.Reserve((cut ? w.rows.size() : block) * static_cast<size_t>(QkvWidth()));
    w.mixed.Reserve(block * static_cast<size_t>(PaddedRow(config_.q_size())));
    w.act.Reserve(block * static_cast<size_t>(PaddedRow(config_.intermediate_size)));
    w.logits.Reserve(std::min(block, w.outs.size()) *
                     static_cast<size_t>(PaddedRow(config_.vocab_size)));
    w.scores.Reserve(4 * (static_cast<size_t>(longest) + 64) +
                     8 * static_cast<size_t>(config_.head_dim));
  }

  // The piece's rows are the last ones.
  static void AskRows(const Piece& piece, Work& w) {
    const StepSegment& segment = piece.segment;
    const size_t count = segment.tokens.size();
    const long first = static_cast<long>(w.rows.size() - count);
    for (size_t r = segment.score >= 0 ? 0 : count - 1; r < count; ++r) {
      RowOut out{.row = first + static_cast<long>(r),
                 .piece = &piece,
                 .draw = segment.draw && r + 1 == count,
                 .score_at = piece.before + r};
      if (segment.score >= 0) out.next = r + 1 < count ? segment.tokens[r + 1] : segment.next;
      if (out.draw || out.next >= 0) w.outs.push_back(out);
    }
  }

  long Width() const { return PaddedRow(config_.hidden_size); }
  long QkvWidth() const { return PaddedRow(config_.q_size() + 2 * config_.kv_size()); }

  // `together`: where the threads wait for one another in each layer; null: none has rows of
  // another's sequences.
  void RunPart(const PackedWeights& packed, std::span<Drawn> drawn, Work& w,
               std::barrier<>* together) {
    LayOut(w, together != nullptr);
    const long rows = static_cast<long>(w.rows.size());
    for (long r = 0; r < rows; ++r) {
      std::copy_n(packed.embed.data() + w.rows[static_cast<size_t>(r)].token * Width(), Width(),
                  w.x.data() + r * Width());
    }
    for (long i = 0; i < config_.num_layers; ++i) {
      const PackedLayer& layer = packed.layers[static_cast<size_t>(i)];
      const auto blocks = [&](const auto& run) {
        for (long first = 0; first < rows; first += kBlockRows) {
          run(first, std::min(kBlockRows, rows - first));
        }
      };
      if (together == nullptr) {
        blocks([&](long first, long count) {
          Project(layer, i, {first, count, w.qkv.data()}, w);
          Transform(layer, i, {first, count, w.qkv.data()}, w);
        });
        continue;
      }
      const auto qkv = [&](long first) { return w.qkv.data() + first * QkvWidth(); };
      blocks([&](long first, long count) { Project(layer, i, {first, count, qkv(first)}, w); });
      together->arrive_and_wait();
      blocks([&](long first, long count) { Transform(layer, i, {first, count, qkv(first)}, w); });
    }
    Draw(packed, drawn, w);
    AddStates(packed, w);
  }

  // Of each piece that asks for it: its rows behind the last norm, added up.
  void AddStates(const PackedWeights& packed, Work& w) const {
    long row = 0;
    for (const Piece& piece : w.pieces) {
      const long end = row + static_cast<long>(piece.segment.tokens.size());
      if (piece.segment.state) {
        std::vector<float> sum(static_cast<size_t>(config_.hidden_size));
        for (long r = row; r < end; ++r) {
          kernels_.rms_norm(w.x.data() + r * Width(), packed.norm.data(), Eps(), 1,
                            config_.hidden_size, Width(), w.h.data());
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += w.h.data()[i];
        }
        w.states.emplace_back(piece.slot, std::move(sum));
      }
      row = end;
    }
  }

  struct Block {
    long first, rows;
    float* qkv;
  };

  float Eps() const { return static_cast<float>(config_.rms_norm_eps); }

  // x, or where there are gains the norm of it, in w.h.
  const float* MaybeNorm(const float* x, const FloatBuffer& gains, long rows, Work& w) const {
    if (gains.size() == 0) return x;
    kernels_.rms_norm(x, gains.data(), Eps(), rows, config_.hidden_size, Width(), w.h.data());
    return w.h.data();
  }

  // x += a·w, where there are gains after a norm; w.h is free for that.
  void AddProduct(const AdaptedProduct& f, const PackedMatrix& matrix, const FloatBuffer& gains,
                  float* x, Work& w) const {
    const long width = Width();
    const float* start = w.adapters.Added(kernels_, f, matrix);
    if (gains.size() == 0) {
      return Multiply(f.x, f.ldx, matrix, f.rows, x, width, MatmulMode::kAdd, start);
    }
    float* h = w.h.data();
    Multiply(f.x, f.ldx, matrix, f.rows, h, width, MatmulMode::kStore, start);
    kernels_.rms_norm(h, gains.data(), Eps(), f.rows, config_.hidden_size, width, h);
    for (long r = 0; r < f.rows; ++r) {
      for (long i = r * width; i < r * width + config_.hidden_size; ++i) x[i] += h[i];
    }
  }

  // Queries, keys and values; the latter into their pages.
  void Project(const PackedLayer& layer, long index, const Block& block, Work& w) {
    const LayerPlan& plan = plan_.layers[static_cast<size_t>(index)];
    const float* x =
        MaybeNorm(w.x.data() + block.first * Width(), layer.attention_in, block.rows, w);
    const AdaptedProduct f{LayerProduct::kQkv, index, block.first, block.rows, x, Width()};
    Multiply(x, Width(), layer.qkv, block.rows, block.qkv, QkvWidth(), MatmulMode::kStore,
             w.adapters.Added(kernels_, f, layer.qkv));
    const bool by_head = plan.qk_norm == QueryKeyNorm::kByHead;
    if (plan.qk_norm == QueryKeyNorm::kWhole) {
      const long q = config_.q_size(), ld = QkvWidth();
      float* keys = block.qkv + q;
      kernels_.rms_norm(block.qkv, layer.q_norm.data(), Eps(), block.rows, q, ld, block.qkv);
      kernels_.rms_norm(keys, layer.k_norm.data(), Eps(), block.rows, config_.kv_size(), ld, keys);
    }
    const RopeTable& rotation = rotations_[static_cast<size_t>(plan.rope)];
    const long half = config_.head_dim / 2;
    for (long r = 0; r < block.rows; ++r) {
      const Row& row = w.rows[static_cast<size_t>(block.first + r)];
      const int32_t slot = row.position % kPageSlots;
      float* page =
          pool_.data() +
          row.segment->pages[static_cast<size_t>(row.position / kPageSlots)] * shape_.page;
      kernels_.rotate({.qkv = block.qkv + r * QkvWidth(),
                       .q_norm = by_head ? layer.q_norm.data() : nullptr,
                       .k_norm = by_head ? layer.k_norm.data() : nullptr,
                       .eps = Eps(),
                       .cos = rotation.cos.data() + row.position * half,
                       .sin = rotation.sin.data() + row.position * half,
                       .q_scale = static_cast<float>(plan_.attention_scale),
                       .keys = page + shape_.KeysAt(index) + slot,
                       .values = page + shape_.ValuesAt(index) + slot * shape_.value_stride,
                       .heads = static_cast<int>(config_.num_heads),
                       .kv_heads = static_cast<int>(config_.num_kv_heads),
                       .head_dim = static_cast<int>(config_.head_dim),
                       .value_stride = static_cast<int>(shape_.value_stride)});
    }
  }

  void Transform(const PackedLayer& layer, long index, const Block& block, Work& w) {
    const long rows = block.rows, act_width = PaddedRow(config_.intermediate_size);
    float* x = w.x.data() + block.first * Width();
    const auto factor = [&](LayerProduct product, const float* a, long lda) {
      return AdaptedProduct{product, index, block.first, rows, a, lda};
    };
    Attend(index, block, w);
    AddProduct(factor(LayerProduct::kO, w.mixed.data(), PaddedRow(config_.q_size())), layer.o,
               layer.attention_out, x, w);
    const float* h = MaybeNorm(x, layer.mlp_in, rows, w);
    const MatmulMode gate =
        plan_.activation == Activation::kSilu ? MatmulMode::kSwiGlu : MatmulMode::kGeGlu;
    if (plan_.layers[static_cast<size_t>(index)].experts.count > 0) {
      return AddExperts(layer, index, block, gate, h, w);
    }
    Multiply(h, Width(), layer.gate_up, rows, w.act.data(), act_width, gate,
             w.adapters.Added(kernels_, factor(LayerProduct::kGateUp, h, Width()), layer.gate_up));
    AddProduct(factor(LayerProduct::kDown, w.act.data(), act_width), layer.down, layer.mlp_out, x,
               w);
  }

  // x += the experts' sum, where there are gains after a norm.
  void AddExperts(const PackedLayer& layer, long index, const Block& block, MatmulMode gate,
                  const float* h, Work& w) {
    const ExpertPlan& plan = plan_.layers[static_cast<size_t>(index)].experts;
    const long width = Width(), hidden = config_.hidden_size;
    const int64_t first = plan_.FirstChoice(static_cast<size_t>(index));
    const float* sum =
        w.experts.Mix(kernels_, {layer, plan, gate, index, block.first, block.rows, h, width},
                      w.adapters, [&](long r, const uint16_t* chosen) {
                        const Row& row = w.rows[static_cast<size_t>(block.first + r)];
                        std::copy_n(chosen, plan.chosen,
                                    RoutingOf(row.segment->pages, row.position).data() + first);
                      });
    if (layer.mlp_out.size() > 0) {
      kernels_.rms_norm(sum, layer.mlp_out.data(), Eps(), block.rows, hidden, width, w.h.data());
      sum = w.h.data();
    }
    float* x = w.x.data() + block.first * width;
    for (long r = 0; r < block.rows; ++r) {
      for (long i = r * width; i < r * width + hidden; ++i) x[i] += sum[i];
    }
  }

  // The experts of one position, all layers together, beside its keys and values.
  std::span<uint16_t> RoutingOf(std::span<const PageId> pages, int32_t position) {
    const auto page = static_cast<size_t>(pages[static_cast<size_t>(position / kPageSlots)]);
    const size_t slot = page * kPageSlots + static_cast<size_t>(position % kPageSlots);
    return std::span(routing_).subspan(slot * choices_, choices_);
  }

  // Of what a segment drew: the experts of its rows that nobody was told of yet.
  void TellExperts(const StepSegment& segment, Drawn& drawn) {
    if (choices_ == 0 || !segment.draw) return;
    const int32_t end = segment.first + static_cast<int32_t>(segment.tokens.size());
    for (int32_t position = segment.routed; position < end; ++position) {
      const std::span<const uint16_t> row = RoutingOf(segment.pages, position);
      drawn.experts.insert(drawn.experts.end(), row.begin(), row.end());
    }
  }

  void Attend(long index, const Block& block, Work& w) {
    const long mixed_width = PaddedRow(config_.q_size());
    for (long r = 0; r < block.rows;) {
      const Row* row = &w.rows[static_cast<size_t>(block.first + r)];
      long count = 1;
      while (r + count < block.rows && row[count].segment == row->segment) ++count;
      const Row* next = r + count < block.rows ? row + count : nullptr;
      const AttentionArgs args{
          .q = block.qkv + r * QkvWidth(),
          .out = w.mixed.data() + r * mixed_width,
          .pool = pool_.data(),
          .pages = row->segment->pages.data(),
          .page_stride = shape_.page,
          .k_offset = shape_.KeysAt(index),
          .v_offset = shape_.ValuesAt(index),
          .heads = static_cast<int>(config_.num_heads),
          .kv_heads = static_cast<int>(config_.num_kv_heads),
          .head_dim = static_cast<int>(config_.head_dim),
          .value_stride = static_cast<int>(shape_.value_stride),
          .length = row->position + 1,
          .window = static_cast<int>(plan_.layers[static_cast<size_t>(index)].window),
          .next_pages = next && count == 1 ? next->segment->pages.data() : nullptr,
          .next_length = next && count == 1 ? next->position : 0,
          .scratch = w.scores.data()};
      if (count == 1) {
        kernels_.attention(args);
      } else {
        kernels_.attention_rows({.first = args,
                                 .rows = static_cast<int>(count),
                                 .q_stride = QkvWidth(),
                                 .out_stride = mixed_width});
      }
      r += count;
    }
  }

  void Draw(const PackedWeights& packed, std::span<Drawn> drawn, Work& w) const {
    const long width = Width(), logit_width = PaddedRow(config_.vocab_size);
    const long total = static_cast<long>(w.outs.size());
    for (long first = 0; first < total; first += kBlockRows) {
      const long rows = std::min(kBlockRows, total - first);
      for (long r = 0; r < rows; ++r) {
        kernels_.rms_norm(w.x.data() + w.outs[static_cast<size_t>(first + r)].row * width,
                          packed.norm.data(), Eps(), 1, config_.hidden_size, width,
                          w.h.data() + r * width);
      }
      Multiply(w.h.data(), width, packed.head, rows, w.logits.data(), logit_width,
               MatmulMode::kStore);
      for (long r = 0; r < rows; ++r) {
        const RowOut& out = w.outs[static_cast<size_t>(first + r)];
        TellRow(out, {w.logits.data() + r * logit_width, static_cast<size_t>(config_.vocab_size)},
                w, drawn[out.piece->slot]);
      }
    }
  }

  void TellRow(const RowOut& out, std::span<const float> logits, Work& w, Drawn& drawn) const {
    const StepSegment& segment = out.piece->segment;
    if (out.next >= 0) {
      Drawn known{.id = out.next};
      ReportModel(kernels_, logits, segment.score, w.sampler, known);
      drawn.scores[out.score_at] = {known.model_logprob, std::move(known.top)};
    }
    if (!out.draw) return;
    const uint64_t position = static_cast<uint64_t>(segment.first) + segment.tokens.size();
    std::vector<PromptLogprob> scores = std::move(drawn.scores);
    DrawControlled(kernels_, logits, segment.sampling, segment.controls.get(), segment.seed,
                   position, w.sampler, drawn);
    drawn.scores = std::move(scores);
  }

  const CpuKernels& kernels_;
  const ModelConfig config_;
  const DecoderPlan plan_;
  const CpuPageShape shape_;
  const size_t choices_;  // of experts for a token, all layers together
  LazyFloats pool_;
  std::vector<uint16_t> routing_;  // by page and slot: the experts of a position
  const PolicyPacker packer_;
  std::vector<PackedPolicy> places_;
  std::vector<RopeTable> rotations_;     // by the plan's ropes
  std::vector<Work> work_;               // one a thread
  std::vector<TokenId> last_;            // by the step started last
  std::deque<std::vector<Drawn>> done_;  // by steps not yet asked for
  WorkerTeam team_;
};

}  // namespace

size_t CpuPageBytes(const PolicyWeights& weights) {
  return static_cast<size_t>(CpuPageShape(weights.config()).page) * sizeof(float);
}

Result<std::unique_ptr<DecodeBackend>> NewCpuBackend(const PolicyWeights& weights,
                                                     const BackendOptions& options) {
  using Made = std::unique_ptr<DecodeBackend>;
  return CatchTorch<Made>("starting the engine",
                          [&]() -> Result<Made> { return Made(new CpuBackend(weights, options)); });
}

}  // namespace tidemill
