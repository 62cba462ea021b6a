#include "engine/torch/torch_engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <unordered_map>

#include "engine/cpu/cpu_kernels.h"
#include "engine/scheduler.h"
#include "engine/turn.h"
#include "model/torch/model.h"

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
        scheduler_(scheduling, [this](PageId from, PageId to) { backend_->CopyPage(from, to); }),
        steps_at_once_(static_cast<size_t>(options_.steps_at_once)) {}

  Status Add(SequenceStart start) override {
    const std::string who = "sequence " + std::to_string(start.id);
    if (sequences_.contains(start.id)) return Exists(who + " already exists");
    if (start.prompt.empty()) return Invalid(who + ": the prompt is empty");
    TM_RETURN_IF_ERROR(CheckTokens(start.prompt).WithContext(who + ": prompt"));
    TM_RETURN_IF_ERROR(CheckRoom(start.prompt.size()).WithContext(who));
    TM_RETURN_IF_ERROR(CheckTurn(start.turn, Stops()).WithContext(who));
    if (sequences_.size() >= options_.max_sequences) {
      return Full("the engine holds " + std::to_string(sequences_.size()) +
                  " sequences, the maximum");
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
    Sequence* sequence = found->second.get();
    for (StepUnderWay& step : under_way_) {
      std::replace(step.draws.begin(), step.draws.end(), sequence, static_cast<Sequence*>(nullptr));
    }
    std::erase_if(ended_before_swap_, [id](const TurnOutput& turn) { return turn.id == id; });
    scheduler_.Forget(*sequence);
    sequences_.erase(found);
    return Ok();
  }

  // Where steps may follow one another before their tokens are known, the next one is started
  // before the first is waited for: the device finds it there when it is done.
  Result<std::vector<TurnOutput>> Step() override {
    while (under_way_.size() < steps_at_once_ &&
           (under_way_.empty() || under_way_.back().foreseen)) {
      TM_ASSIGN_OR_RETURN(const bool started, StartStep());
      if (!started) break;
    }
    std::vector<TurnOutput> finished = std::exchange(ended_before_swap_, {});
    if (!under_way_.empty()) TM_RETURN_IF_ERROR(FinishStep(finished));
    return finished;
  }

  bool Work() const override {
    return scheduler_.Work() || !under_way_.empty() || !ended_before_swap_.empty();
  }

  Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const override {
    return backend_->Prepare(ToPolicyWeights(std::move(weights)));
  }

  Status SwapReady(ReadyWeights& ready, uint64_t version, CacheOnSwap cache) override {
    while (!under_way_.empty()) TM_RETURN_IF_ERROR(FinishStep(ended_before_swap_));
    const auto begin = std::chrono::steady_clock::now();
    TM_RETURN_IF_ERROR(backend_->Take(ready));
    version_ = version;
    scheduler_.NewWeights(cache);
    ++stats_.swaps;
    stats_.pause_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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

  // A step that was started and not yet waited for.
  struct StepUnderWay {
    std::vector<Sequence*> draws;  // by segment; null: draws nothing, or for nobody any more
    uint64_t version = 0;
    bool foreseen = true;  // another may be started before its tokens are known
  };

  // False: there was nothing to start.
  Result<bool> StartStep() {
    const std::vector<PlannedRows> plan = scheduler_.Plan();
    if (plan.empty()) return false;
    segments_.clear();
    for (const PlannedRows& rows : plan) segments_.push_back(MakeSegment(rows));
    TM_RETURN_IF_ERROR(backend_->Start(segments_));
    ++stats_.steps;
    StepUnderWay& step = under_way_.emplace_back();
    step.version = version_;
    for (size_t i = 0; i < plan.size(); ++i) {
      Sequence& s = *plan[i].sequence;
      scheduler_.Started(s, plan[i].rows);
      step.draws.push_back(segments_[i].draw ? &s : nullptr);
      if (!segments_[i].draw) continue;
      s.segment = i;
      ++s.drawing;
      s.closing = EndsWithin(s, s.drawing, options_.max_context);
      step.foreseen = step.foreseen && backend_->Foresees(s.turn.sampling);
    }
    return true;
  }

  Status FinishStep(std::vector<TurnOutput>& finished) {
    const StepUnderWay step = std::move(under_way_.front());
    under_way_.pop_front();
    drawn_.assign(step.draws.size(), {});
    TM_RETURN_IF_ERROR(backend_->Finish(drawn_));
    for (size_t i = 0; i < step.draws.size(); ++i) {
      if (step.draws[i] != nullptr && (drawn_[i].id < 0 || drawn_[i].id >= vocabulary_)) {
        return Internal("the model's logits are not finite; its weights are broken");
      }
    }
    for (size_t i = 0; i < step.draws.size(); ++i) {
      if (step.draws[i] != nullptr) Take(*step.draws[i], drawn_[i], step.version, finished);
    }
    return Ok();
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
    static constexpr TokenId kNotKnownYet = 0;
    const bool known = static_cast<size_t>(s.cached) < s.tokens.size();
    return {.tokens = known ? std::span(s.tokens).subspan(static_cast<size_t>(s.cached),
                                                          static_cast<size_t>(planned.rows))
                            : std::span(&kNotKnownYet, 1),
            .after = known ? -1 : static_cast<int32_t>(s.segment),
            .first = s.cached,
            .pages = s.pages,
            .draw = draw,
            .sampling = s.turn.sampling,
            .seed = s.turn.seed};
  }

  void Take(Sequence& s, const Drawn& drawn, uint64_t version, std::vector<TurnOutput>& finished) {
    ++stats_.generated_tokens;
    --s.drawing;
    const bool ended = AppendToken(s, drawn, version, options_.max_context, options_.token_bytes);
    if (!ended) return;
    if (s.drawing > 0) {  // nobody could know when the next step was started
      under_way_.back().draws[s.segment] = nullptr;
      s.drawing = 0;
      scheduler_.TakeBack(s);
    }
    s.closing = false;
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
  const size_t steps_at_once_;
  std::deque<StepUnderWay> under_way_;         // the oldest first
  std::vector<TurnOutput> ended_before_swap_;  // to be said by the next Step
  std::vector<StepSegment> segments_;          // of the step started last
  std::vector<Drawn> drawn_;
};

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
  if (options.steps_at_once < 0 || options.steps_at_once > 2) {
    return Invalid("steps_at_once must be 1 or 2, got " + std::to_string(options.steps_at_once));
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
  if (options.steps_at_once == 0) options.steps_at_once = OnGpu(*weights) ? 2 : 1;
  const SchedulerOptions scheduling{.pages = static_cast<int32_t>(pages),
                                    .max_running = options.max_running,
                                    .prefill_chunk = options.prefill_chunk};
  return std::unique_ptr<Engine>(
      new TorchEngine(config, std::move(options), scheduling, version, std::move(backend)));
}

}  // namespace tidemill
