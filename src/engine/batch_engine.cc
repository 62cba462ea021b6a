#include "engine/batch_engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <unordered_map>

#include "engine/held_versions.h"
#include "engine/turn.h"

namespace tidemill {
namespace {

class BatchEngine final : public Engine {
 public:
  BatchEngine(BatchEngineOptions options, std::unique_ptr<DecodeBackend> backend)
      : options_(std::move(options)),
        versions_(options_.versions, options_.adapters, options_.version),
        backend_(std::move(backend)),
        scheduler_(options_.scheduling,
                   [this](PageId from, PageId to) { backend_->CopyPage(from, to); }) {}

  Status Add(SequenceStart start) override {
    const std::string who = "sequence " + std::to_string(start.id);
    if (sequences_.contains(start.id)) return Exists(who + " already exists");
    if (start.prompt.empty()) return Invalid(who + ": the prompt is empty");
    TM_RETURN_IF_ERROR(CheckTokens(start.prompt).WithContext(who + ": prompt"));
    TM_RETURN_IF_ERROR(CheckRoom(start.prompt.size(), start.turn).WithContext(who));
    const bool scored = start.turn.prompt_logprobs >= 0 || start.turn.prompt_state;
    if (scored && !backend_->Scores()) {
      return Invalid("log-probabilities and embeddings of a prompt are not available on a GPU");
    }
    if (sequences_.size() >= options_.max_sequences) {
      return Full("the engine holds " + std::to_string(sequences_.size()) +
                  " sequences, the maximum");
    }
    const std::optional<uint64_t> newest = versions_.Newest(start.policy);
    if (!newest || Dropped(start.policy)) {
      return NotFound(who + ": this engine has no policy " +
                      std::to_string(static_cast<uint32_t>(start.policy)));
    }
    const PolicyVersion weights{.policy = start.policy,
                                .version = start.pin_version.value_or(*newest)};
    if (start.pin_version) TM_RETURN_IF_ERROR(versions_.Pin(weights).WithContext(who));
    auto sequence = std::make_unique<Sequence>();
    sequence->id = start.id;
    sequence->prompt_length = static_cast<int32_t>(start.prompt.size());
    sequence->tokens = std::move(start.prompt);
    // Every row of a prompt that is scored has to be computed.
    sequence->share_group = scored ? 0 : start.share_group;
    if (!scored) sequence->owner = {.tenant = start.tenant, .session = start.session};
    sequence->service = start.service;
    sequence->stream = start.stream;
    sequence->pinned = start.pin_version.has_value();
    sequence->weights = weights;
    ++policies_[start.policy].sequences;
    scheduler_.Introduce(*sequence);
    BeginTurn(*sequence, std::move(start.turn));
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
    TM_RETURN_IF_ERROR(CheckRoom(sequence.tokens.size() + append.size(), turn).WithContext(who));
    sequence.tokens.insert(sequence.tokens.end(), append.begin(), append.end());
    BeginTurn(sequence, std::move(turn));
    scheduler_.Enqueue(sequence);
    return Ok();
  }

  void Interrupt(SequenceId id) override {
    const auto found = sequences_.find(id);
    if (found != sequences_.end()) found->second->interrupted = true;  // a new turn forgets it
  }

  Status Release(SequenceId id) override {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) return NotFound("no sequence " + std::to_string(id));
    Sequence* sequence = found->second.get();
    for (StepUnderWay& step : under_way_) {
      for (StepUnderWay::Draw& draw : step.draws) {
        if (draw.sequence == sequence) draw.sequence = nullptr;
        if (draw.scored == sequence) draw.scored = nullptr;
      }
    }
    std::erase_if(ended_before_swap_, [id](const TurnOutput& turn) { return turn.id == id; });
    std::erase_if(deltas_, [id](const TurnDelta& delta) { return delta.part.id == id; });
    scheduler_.Forget(*sequence);
    if (sequence->pinned) versions_.Unpin(sequence->weights);
    const PolicyId policy = sequence->weights.policy;
    sequences_.erase(found);
    PolicyUse& use = policies_.at(policy);
    if (--use.sequences == 0 && use.dropped) LetGo(policy);
    return Ok();
  }

  // Where steps may follow one another before their tokens are known, the next one is started
  // before the first is waited for: the device finds it there when it is done.
  Result<std::vector<TurnOutput>> Step() override {
    Result<std::vector<TurnOutput>> finished = RunStep();
    if (!finished.ok()) scheduler_.Distrust();
    return finished;
  }

  std::vector<TurnDelta> TakeDeltas() override { return std::exchange(deltas_, {}); }

  bool Work() const override {
    return scheduler_.Work() || !under_way_.empty() || !ended_before_swap_.empty();
  }

  Result<std::shared_ptr<ReadyWeights>> Prepare(
      std::shared_ptr<const Weights> weights) const override {
    return backend_->Prepare(std::move(weights));
  }

  Status SwapReady(ReadyWeights& ready, PolicyVersion version, CacheOnSwap cache) override {
    if (Dropped(version.policy)) {
      return NotFound(NameOf(version) + ": the policy was dropped");
    }
    TM_ASSIGN_OR_RETURN(const int32_t place, versions_.PlaceForNew(version.policy));
    while (MeetsStepsUnderWay(version.policy, place, cache)) {
      const Status done = FinishStep(ended_before_swap_);
      if (!done.ok()) return scheduler_.Distrust(), done;
    }
    const auto begin = std::chrono::steady_clock::now();
    TM_RETURN_IF_ERROR(backend_->Take(ready, place));
    const std::vector<PolicyVersion> gone = versions_.Took(place, version);
    scheduler_.NewWeights(version, cache);
    for (const PolicyVersion& weights : gone) scheduler_.ForgetWeights(weights);
    ++stats_.swaps;
    stats_.pause_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return Ok();
  }

  Status DropPolicy(PolicyId policy) override {
    const std::string name = "policy " + std::to_string(static_cast<uint32_t>(policy));
    if (policy == PolicyId::kMain) return Invalid("the main policy cannot be dropped");
    if (!versions_.Newest(policy) || Dropped(policy)) return NotFound("this engine has no " + name);
    PolicyUse& use = policies_[policy];
    use.dropped = true;
    if (use.sequences == 0) LetGo(policy);
    return Ok();
  }

  Status Hold(uint64_t version, uint64_t as) override {
    if (std::find(stats_.held.begin(), stats_.held.end(), as) != stats_.held.end()) return Ok();
    TM_RETURN_IF_ERROR(versions_.Pin(OfMain(version)));
    TM_RETURN_IF_ERROR(versions_.Alias(version, as));
    stats_.held.push_back(as);
    return Ok();
  }

  void Unhold(uint64_t as) override {
    if (std::erase(stats_.held, as) > 0) versions_.Unpin(OfMain(as));
  }

  void ForgetTenant(uint64_t tenant) override { scheduler_.ForgetTenant(tenant); }

  EngineStats Stats() const override {
    EngineStats stats = stats_;
    stats.version = versions_.newest();
    stats.versions_held = versions_.held();
    stats.policies = versions_.policies();
    for (const auto& [policy, use] : policies_) stats.policies -= use.dropped ? 1 : 0;
    const SchedulerCounts& counts = scheduler_.counts();
    stats.evictions = counts.evictions;
    stats.cache_lookups = counts.cache_lookups;
    stats.cache_hits = counts.cache_hits;
    stats.lookup_tokens = counts.lookup_tokens;
    stats.reused_tokens = counts.reused_tokens;
    stats.running = scheduler_.running();
    stats.running_live = scheduler_.running(SequenceClass::kLive);
    stats.waiting = scheduler_.waiting();
    stats.waiting_live = scheduler_.waiting(SequenceClass::kLive);
    stats.parked = scheduler_.parked();
    stats.pages_used = scheduler_.pool().used();
    stats.pages_cached = scheduler_.pool().idle();
    stats.pages_total = scheduler_.pool().total();
    return stats;
  }

  int32_t max_context() const override { return options_.scheduling.max_context; }

 private:
  static PolicyVersion OfMain(uint64_t version) {
    return {.policy = PolicyId::kMain, .version = version};
  }

  bool Stops() const { return static_cast<bool>(options_.token_bytes); }

  Status CheckTokens(const std::vector<TokenId>& tokens) const {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= options_.vocabulary) {
        return Invalid("token " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
                       ", the vocabulary has " + std::to_string(options_.vocabulary));
      }
    }
    return Ok();
  }

  // There must be a place left for one new token behind the forced ones.
  Status CheckRoom(size_t tokens, const TurnParams& turn) const {
    TM_RETURN_IF_ERROR(CheckTurn(turn, Stops()));
    TM_RETURN_IF_ERROR(CheckTokens(turn.forced).WithContext("forced"));
    const size_t all = tokens + turn.forced.size();
    if (all < static_cast<size_t>(max_context())) return Ok();
    return Invalid(std::to_string(all) + " tokens leave no room in a context of " +
                   std::to_string(max_context()));
  }

  // A step that was started and not yet waited for.
  struct StepUnderWay {
    struct Draw {
      Sequence* sequence = nullptr;  // null: draws nothing, or for nobody any more
      uint64_t version = 0;          // of the sequence's policy
      Sequence* scored = nullptr;    // whose prompt its rows score
    };
    std::vector<Draw> draws;         // by segment
    std::vector<PolicyId> policies;  // by segment
    std::vector<int32_t> places;     // by segment: of its weights
    bool foreseen = true;            // another may be started before its tokens are known
  };

  // Sequences of a policy that are not released yet.
  struct PolicyUse {
    size_t sequences = 0;
    bool dropped = false;
  };

  bool Dropped(PolicyId policy) const {
    const auto use = policies_.find(policy);
    return use != policies_.end() && use->second.dropped;
  }

  // Whether new weights of the policy in `place` have to wait for a step: for one that reads the
  // place, or one whose rows would lose their pages.
  bool MeetsStepsUnderWay(PolicyId policy, int32_t place, CacheOnSwap cache) const {
    return std::any_of(under_way_.begin(), under_way_.end(), [&](const StepUnderWay& step) {
      const bool reads =
          std::find(step.places.begin(), step.places.end(), place) != step.places.end();
      const bool has =
          std::find(step.policies.begin(), step.policies.end(), policy) != step.policies.end();
      return reads || (has && cache == CacheOnSwap::kRebuild);
    });
  }

  void LetGo(PolicyId policy) {
    for (const PolicyVersion& weights : versions_.Forget(policy)) {
      scheduler_.ForgetWeights(weights);
    }
    scheduler_.ForgetPolicy(policy);
    policies_.erase(policy);
  }

  Result<std::vector<TurnOutput>> RunStep() {
    while (under_way_.size() < static_cast<size_t>(options_.steps_at_once) &&
           (under_way_.empty() || under_way_.back().foreseen)) {
      TM_ASSIGN_OR_RETURN(const bool started, StartStep());
      if (!started) break;
    }
    std::vector<TurnOutput> finished = std::exchange(ended_before_swap_, {});
    if (!under_way_.empty()) TM_RETURN_IF_ERROR(FinishStep(finished));
    return finished;
  }

  // False: there was nothing to start.
  Result<bool> StartStep() {
    const std::vector<PlannedRows> plan = scheduler_.Plan();
    if (plan.empty()) return false;
    segments_.clear();
    for (const PlannedRows& rows : plan) segments_.push_back(MakeSegment(rows));
    TM_RETURN_IF_ERROR(backend_->Start(segments_));
    ++stats_.steps;
    StepUnderWay& step = under_way_.emplace_back();
    for (size_t i = 0; i < plan.size(); ++i) {
      Sequence& s = *plan[i].sequence;
      scheduler_.Started(s, plan[i].rows);
      step.draws.push_back({segments_[i].draw ? &s : nullptr, s.weights.version,
                            segments_[i].score >= 0 || segments_[i].state ? &s : nullptr});
      step.policies.push_back(s.weights.policy);
      step.places.push_back(segments_[i].weights);
      if (!segments_[i].draw) continue;
      s.segment = i;
      ++s.drawing;
      s.closing = EndsWithin(s, s.drawing, options_.scheduling.max_context);
      step.foreseen = step.foreseen && backend_->ForeseesDraw(segments_[i]);
    }
    return true;
  }

  Status FinishStep(std::vector<TurnOutput>& finished) {
    const StepUnderWay step = std::move(under_way_.front());
    under_way_.pop_front();
    drawn_.assign(step.draws.size(), {});
    TM_RETURN_IF_ERROR(backend_->Finish(drawn_));
    for (size_t i = 0; i < step.draws.size(); ++i) {
      if (step.draws[i].sequence != nullptr &&
          (drawn_[i].id < 0 || drawn_[i].id >= options_.vocabulary)) {
        return Internal("the model's logits are not finite; its weights are broken");
      }
    }
    for (size_t i = 0; i < step.draws.size(); ++i) {
      if (step.draws[i].scored != nullptr) TakeScores(*step.draws[i].scored, drawn_[i]);
      if (step.draws[i].sequence != nullptr) Take(step.draws[i], std::move(drawn_[i]), finished);
    }
    return Ok();
  }

  StepSegment MakeSegment(const PlannedRows& planned) {
    const Sequence& s = *planned.sequence;
    const bool draw = planned.rows == s.Pending();
    // What this turn generated is decoded, all before it filled in.
    const int32_t drawn = s.turned - static_cast<int32_t>(s.turn.forced.size());
    const int32_t generated = static_cast<int32_t>(s.tokens.size()) - drawn;
    for (int32_t p = s.cached; p < s.cached + planned.rows; ++p) {
      if (p < s.computed_before) {
        ++stats_.rebuilt_tokens;
      } else if (p < generated) {
        ++stats_.prefill_tokens;
      }
    }
    static constexpr TokenId kNotKnownYet = 0;
    const bool known = static_cast<size_t>(s.cached) < s.tokens.size();
    const bool scores = AsksScores(*planned.sequence, planned.rows);
    const auto behind = static_cast<size_t>(s.cached + planned.rows);
    return {.tokens = known ? std::span(s.tokens).subspan(static_cast<size_t>(s.cached),
                                                          static_cast<size_t>(planned.rows))
                            : std::span(&kNotKnownYet, 1),
            .after = known ? -1 : static_cast<int32_t>(s.segment),
            .first = s.cached,
            .pages = s.pages,
            .draw = draw,
            .sampling = s.turn.sampling,
            .seed = s.turn.seed,
            .controls =
                draw ? planned.sequence->controls.Next(s.turn.controls, s.turn.stop_ids, s.turned)
                     : nullptr,
            .score = scores ? s.turn.prompt_logprobs : -1,
            .next = scores && behind < s.tokens.size() ? s.tokens[behind] : -1,
            .state = scores && s.turn.prompt_state,
            .weights = versions_.PlaceOf(s.weights),
            // The step under way tells those up to the row it draws from.
            .routed = s.drawing > 0 ? s.cached : s.routed};
  }

  // Whether rows are of a prompt whose log-probabilities or states are asked for. What was computed
  // and lost before the first draw is scored again.
  static bool AsksScores(Sequence& s, int32_t rows) {
    const bool begun = s.turned > static_cast<int32_t>(s.turn.forced.size());
    if ((s.turn.prompt_logprobs < 0 && !s.turn.prompt_state) || begun) return false;
    if (s.cached == 0) {
      s.scored = 0;
      s.output.prompt.clear();
      s.output.prompt_state.clear();
    }
    // Of the last token of a prompt nothing is known but its state.
    const int32_t rows_max = s.prompt_length - (s.turn.prompt_state ? 0 : 1);
    if (s.cached != s.scored || s.scored >= rows_max) return false;
    s.scored += rows;
    return true;
  }

  static void TakeScores(Sequence& s, Drawn& drawn) {
    std::vector<float>& sum = s.output.prompt_state;
    sum.resize(std::max(sum.size(), drawn.state.size()));
    for (size_t i = 0; i < drawn.state.size(); ++i) sum[i] += drawn.state[i];
    for (PromptLogprob& score : drawn.scores) {
      if (static_cast<int32_t>(s.output.prompt.size()) + 1 >= s.prompt_length) return;
      s.output.prompt.push_back(std::move(score));
    }
  }

  void Take(const StepUnderWay::Draw& draw, Drawn drawn, std::vector<TurnOutput>& finished) {
    Sequence& s = *draw.sequence;
    ++stats_.generated_tokens;
    --s.drawing;
    const bool ended = AppendToken(s, std::move(drawn), draw.version,
                                   options_.scheduling.max_context, options_.token_bytes);
    if (ended) {
      if (s.drawing > 0) {  // nobody could know when the next step was started
        under_way_.back().draws[s.segment].sequence = nullptr;
        s.drawing = 0;
        scheduler_.TakeBack(s);
      }
      s.closing = false;
      scheduler_.Park(s);
    }
    if (s.stream) {
      deltas_.push_back({.part = TakeOutput(s), .done = ended, .status = {}});
    } else if (ended) {
      finished.push_back(std::move(s.output));
    }
  }

  const BatchEngineOptions options_;
  HeldVersions versions_;
  std::unique_ptr<DecodeBackend> backend_;
  Scheduler scheduler_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::map<PolicyId, PolicyUse> policies_;
  EngineStats stats_;
  std::deque<StepUnderWay> under_way_;         // the oldest first
  std::vector<TurnOutput> ended_before_swap_;  // to be said by the next Step
  std::vector<TurnDelta> deltas_;              // to be taken
  std::vector<StepSegment> segments_;          // of the step started last
  std::vector<Drawn> drawn_;
};

}  // namespace

std::unique_ptr<Engine> NewBatchEngine(BatchEngineOptions options,
                                       std::unique_ptr<DecodeBackend> backend) {
  return std::make_unique<BatchEngine>(std::move(options), std::move(backend));
}

}  // namespace tidemill
