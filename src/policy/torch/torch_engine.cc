#include "policy/torch/torch_engine.h"

#include <algorithm>
#include <unordered_map>

#include "policy/torch/cpu_kernels.h"
#include "policy/torch/model.h"
#include "policy/torch/scheduler.h"
#include "policy/torch/turn.h"

namespace tidemill {
namespace {

class TorchEngine final : public Engine {
 public:
  TorchEngine(const ModelConfig& config, EngineOptions options, const SchedulerOptions& scheduling,
              uint64_t version, std::unique_ptr<DecodeBackend> backend)
      : vocabulary_(config.vocab_size),
        options_(std::move(options)),
        version_(version),
        backend_(std::move(backend)),
        scheduler_(scheduling, [this](PageId from, PageId to) { backend_->CopyPage(from, to); }) {}

  Status Add(SequenceStart start) override {
    const std::string who = "sequence " + std::to_string(start.id);
    if (sequences_.contains(start.id)) return Exists(who + " is there already");
    if (start.prompt.empty()) return Invalid(who + ": the prompt is empty");
    TM_RETURN_IF_ERROR(CheckTokens(start.prompt).WithContext(who + ": prompt"));
    TM_RETURN_IF_ERROR(CheckRoom(start.prompt.size()).WithContext(who));
    TM_RETURN_IF_ERROR(CheckTurn(start.turn, Stops()).WithContext(who));
    if (sequences_.size() >= options_.max_sequences) {
      return Full("the engine holds " + std::to_string(sequences_.size()) +
                  " sequences, as many as it may");
    }
    auto sequence = std::make_unique<Sequence>();
    sequence->id = start.id;
    sequence->prompt_length = static_cast<int32_t>(start.prompt.size());
    sequence->tokens = std::move(start.prompt);
    sequence->share_group = start.share_group;
    BeginTurn(*sequence, std::move(start.turn));
    scheduler_.Introduce(*sequence);
    scheduler_.Enqueue(*sequence);
    sequences_.emplace(start.id, std::move(sequence));
    return Ok();
  }

  Status Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override {
    const std::string who = "sequence " + std::to_string(id);
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return NotFound("no " + who);
    Sequence& sequence = *found->second;
    if (sequence.state != SequenceState::kParked) return Invalid(who + " is not parked");
    TM_RETURN_IF_ERROR(CheckTokens(append).WithContext(who + ": appended"));
    TM_RETURN_IF_ERROR(CheckRoom(sequence.tokens.size() + append.size()).WithContext(who));
    TM_RETURN_IF_ERROR(CheckTurn(turn, Stops()).WithContext(who));
    sequence.tokens.insert(sequence.tokens.end(), append.begin(), append.end());
    BeginTurn(sequence, std::move(turn));
    scheduler_.Enqueue(sequence);
    return Ok();
  }

  Status Release(SequenceId id) override {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return NotFound("no sequence " + std::to_string(id));
    scheduler_.Forget(*found->second);
    sequences_.erase(found);
    return Ok();
  }

  Result<std::vector<TurnOutput>> Step() override {
    std::vector<TurnOutput> finished;
    if (!Work()) return finished;
    const std::vector<PlannedRows> plan = scheduler_.Plan();
    segments_.clear();
    for (const PlannedRows& rows : plan) segments_.push_back(MakeSegment(rows));
    drawn_.assign(plan.size(), {});
    TM_RETURN_IF_ERROR(backend_->Run(segments_, drawn_));
    ++stats_.steps;
    for (size_t i = 0; i < plan.size(); ++i) {
      Sequence& sequence = *plan[i].sequence;
      scheduler_.Computed(sequence, plan[i].rows);
      if (segments_[i].draw) Take(sequence, drawn_[i], finished);
    }
    return finished;
  }

  bool Work() const override { return scheduler_.Work(); }

  Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const PolicyWeights> weights) const override {
    return backend_->Prepare(std::move(weights));
  }

  Status SwapReady(ReadyWeights& ready, uint64_t version, CacheOnSwap cache) override {
    TM_RETURN_IF_ERROR(backend_->Take(ready));
    version_ = version;
    scheduler_.NewWeights(cache);
    ++stats_.swaps;
    return Ok();
  }

  EngineStats Stats() const override {
    EngineStats stats = stats_;
    stats.version = version_;
    stats.evictions = scheduler_.evictions();
    stats.running = scheduler_.running();
    stats.waiting = scheduler_.waiting();
    stats.parked = scheduler_.parked();
    stats.pages_used = scheduler_.pool().used();
    stats.pages_total = scheduler_.pool().total();
    return stats;
  }

  int32_t max_context() const override { return options_.max_context; }

 private:
  bool Stops() const { return static_cast<bool>(options_.token_bytes); }

  Status CheckTokens(const std::vector<TokenId>& tokens) const {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= vocabulary_) {
        return Invalid("token " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
                       ", the vocabulary has " + std::to_string(vocabulary_));
      }
    }
    return Ok();
  }

  // There must be a place left for one new token.
  Status CheckRoom(size_t tokens) const {
    if (tokens < static_cast<size_t>(options_.max_context)) return Ok();
    return Invalid(std::to_string(tokens) + " tokens leave no room in a context of " +
                   std::to_string(options_.max_context));
  }

  StepSegment MakeSegment(const PlannedRows& planned) {
    const Sequence& s = *planned.sequence;
    const bool draw = planned.rows == s.Pending();
    // What this turn generated is decoded, all before it filled in.
    const int32_t generated = static_cast<int32_t>(s.tokens.size() - s.output.ids.size());
    for (int32_t p = s.cached; p < s.cached + planned.rows; ++p) {
      if (p < s.computed_before) {
        ++stats_.rebuilt_tokens;
      } else if (p < generated) {
        ++stats_.prefill_tokens;
      }
    }
    return {.tokens = std::span(s.tokens).subspan(static_cast<size_t>(s.cached),
                                                  static_cast<size_t>(planned.rows)),
            .first = s.cached,
            .pages = s.pages,
            .draw = draw,
            .sampling = s.turn.sampling,
            .seed = s.turn.seed};
  }

  void Take(Sequence& s, const Drawn& drawn, std::vector<TurnOutput>& finished) {
    ++stats_.generated_tokens;
    const bool ended = AppendToken(s, drawn, version_, options_.max_context, options_.token_bytes);
    if (!ended) return;
    scheduler_.Park(s);
    finished.push_back(std::move(s.output));
  }

  const int64_t vocabulary_;
  const EngineOptions options_;
  uint64_t version_;
  std::unique_ptr<DecodeBackend> backend_;
  Scheduler scheduler_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  EngineStats stats_;
  std::vector<StepSegment> segments_;  // of the step under way
  std::vector<Drawn> drawn_;
};

// On a GPU a step without prompts is one graph of a size that was tuned.
constexpr int32_t kGpuHoldPrompts = 8;

bool OnGpu(const PolicyWeights& weights) {
  return weights.view().embed.is_cuda();
}

#ifdef TIDEMILL_CUDA
size_t PageBytes(const PolicyWeights& weights) {
  return OnGpu(weights) ? CudaPageBytes(weights) : CpuPageBytes(weights);
}
Result<std::unique_ptr<DecodeBackend>> NewBackend(const PolicyWeights& weights,
                                                  const BackendOptions& options) {
  return OnGpu(weights) ? NewCudaBackend(weights, options) : NewCpuBackend(weights, options);
}
#else
size_t PageBytes(const PolicyWeights& weights) {
  return CpuPageBytes(weights);
}
Result<std::unique_ptr<DecodeBackend>> NewBackend(const PolicyWeights& weights,
                                                  const BackendOptions& options) {
  if (OnGpu(weights)) return Invalid("this program was built without CUDA");
  return NewCpuBackend(weights, options);
}
#endif

}  // namespace

Result<std::unique_ptr<Engine>> NewEngine(std::shared_ptr<const PolicyWeights> weights,
                                          uint64_t version, EngineOptions options) {
  const ModelConfig& config = weights->config();
  if (options.max_context < 0 || options.prefill_chunk < 1 || options.max_running < 1 ||
      options.max_sequences < 1 || options.threads < 1) {
    return Invalid("the engine's limits must be positive");
  }
  const uint64_t page_bytes = PageBytes(*weights);
  const auto pages_for = [](uint64_t tokens) { return (tokens + kPageSlots - 1) / kPageSlots; };
  // More pages than all sequences could fill are of no use.
  const uint64_t context = static_cast<uint64_t>(
      options.max_context > 0 ? options.max_context : config.max_position_embeddings);
  const uint64_t useful = options.max_sequences * (pages_for(context) + 1);
  const uint64_t pages = std::min({options.cache_bytes / page_bytes, useful, uint64_t{1} << 30});
  const uint64_t fits = pages > 0 ? (pages - 1) * kPageSlots : 0;
  if (options.max_context == 0) options.max_context = static_cast<int32_t>(std::min(context, fits));
  if (options.max_context > config.max_position_embeddings) {
    return Invalid("a context of " + std::to_string(options.max_context) +
                   " tokens is more than the model's " +
                   std::to_string(config.max_position_embeddings));
  }
  if (options.max_context < 2 || static_cast<uint64_t>(options.max_context) > fits) {
    return Invalid("a context of " + std::to_string(context) + " tokens needs a cache of " +
                   std::to_string((pages_for(context) + 1) * page_bytes) + " bytes, not " +
                   std::to_string(options.cache_bytes));
  }
  const uint64_t rows = options.max_running + static_cast<uint64_t>(options.prefill_chunk);
  TM_ASSIGN_OR_RETURN(
      std::unique_ptr<DecodeBackend> backend,
      NewBackend(*weights, {.pages = static_cast<int32_t>(pages),
                            .max_context = options.max_context,
                            .threads = options.threads,
                            .max_decode_rows = static_cast<int32_t>(options.max_running),
                            .max_rows = static_cast<int32_t>(rows)}));
  const SchedulerOptions scheduling{.pages = static_cast<int32_t>(pages),
                                    .max_running = options.max_running,
                                    .prefill_chunk = options.prefill_chunk,
                                    .hold_prompts = OnGpu(*weights) ? kGpuHoldPrompts : 0};
  return std::unique_ptr<Engine>(
      new TorchEngine(config, std::move(options), scheduling, version, std::move(backend)));
}

}  // namespace tidemill
