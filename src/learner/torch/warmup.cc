#include "learner/torch/warmup.h"

#include "model/torch/aten.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/files.h"
#include "core/random.h"
#include "learner/torch/checkpoint.h"
#include "learner/torch/demonstrations.h"
#include "learner/torch/policy_scorer.h"
#include "learner/torch/warmup_state.h"
#include "model/torch/catch.h"
#include "model/torch/device.h"
#include "model/torch/moved_weights.h"

namespace tidemill {
namespace {

using SteadyClock = std::chrono::steady_clock;

Result<std::shared_ptr<const PolicyWeights>> StartingWeights(const WarmupOptions& options) {
  if (!options.model.empty()) {
    TM_RETURN_IF_ERROR(CheckModelWeights(options.model));
    return PolicyWeights::Load(options.model, {options.device, Dtype::kF32});
  }
  TM_ASSIGN_OR_RETURN(const auto drawn, PolicyWeights::NewRandom(*options.config, options.seed));
  return IsGpu(options.device) ? MovedWeights(drawn, options.device, at::kFloat) : drawn;
}

std::string TokenizerDir(const WarmupOptions& options) {
  return options.tokenizer.empty() ? options.model : options.tokenizer;
}

Result<std::vector<TrainSequence>> Sequences(const WarmupOptions& options,
                                             const ModelConfig& config) {
  EncodeOptions encode;
  encode.end_ids = config.eos_token_ids;
  encode.append_end = options.append_end;
  encode.vocabulary = config.vocab_size;
  encode.context = config.max_position_embeddings;
  encode.train_prompt = options.train_prompt;
  std::optional<Tokenizer> tokenizer;
  const std::string dir = TokenizerDir(options);
  if (!dir.empty() && std::filesystem::exists(dir + "/tokenizer.json")) {
    TM_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Read(dir));
    if (tokenizer->vocab_size() > config.vocab_size) {
      return Invalid(dir + "/tokenizer.json has " + std::to_string(tokenizer->vocab_size()) +
                     " tokens, the model only " + std::to_string(config.vocab_size));
    }
    encode.tokenizer = &*tokenizer;
  }
  return ReadDemonstrations(options.demonstrations, encode);
}

}  // namespace

Status ValidateWarmupOptions(const WarmupOptions& o) {
  TM_RETURN_IF_ERROR(ValidateSchedule(o.schedule));
  if (o.demonstrations.empty()) return Invalid("the file of demonstrations is missing");
  if (o.model.empty() && !o.config.has_value()) {
    return Invalid("neither a model directory nor the shape of a new model is given");
  }
  if (!(o.held_out_fraction > 0 && o.held_out_fraction < 1)) {
    return Invalid("the held-out fraction must be between 0 and 1, got " +
                   std::to_string(o.held_out_fraction));
  }
  if (o.batch_tokens < 1 || o.microbatch_tokens < 1) {
    return Invalid("a batch must have at least 1 token");
  }
  if (o.evaluate_every_steps == 0) return Invalid("evaluations must be at least 1 step apart");
  if (!(o.least_improvement >= 0)) return Invalid("the least improvement must be at least 0");
  return Ok();
}

namespace {

// What a cut leaves of the learning rate.
constexpr double kRateCut = 0.2;

class Warmup {
 public:
  Warmup(const WarmupOptions& options, std::vector<TrainSequence> rows,
         std::unique_ptr<TrainableModel> model)
      : options_(options),
        rows_(std::move(rows)),
        no_advantages_(rows_.size(), {0.0}),
        scorer_(std::move(model), {.fused = true,
                                   .bfloat16 = IsGpu(options.device),
                                   .value_head = false,
                                   .recompute = false}),
        optimizer_(options.adamw),
        random_(options.seed) {
    Split();
  }

  WarmupIdentity Identity() const;
  // Where an interrupted one stood. kInvalid: its tensors are of another model.
  Status GoOnFrom(const WarmupState& state);
  Result<WarmupReport> Run(const WarmupCallback& callback);
  Result<std::shared_ptr<const PolicyWeights>> Kept() {
    if (!options_.keep_last) TM_RETURN_IF_ERROR(scorer_.model().Restore(best_));
    return scorer_.model().Snapshot();
  }

 private:
  void Split() {
    std::vector<int32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0);
    Random random = random_.Split("held out");
    random.Shuffle(order);
    const auto wanted =
        static_cast<uint64_t>(options_.held_out_fraction * static_cast<double>(rows_.size()));
    const uint64_t held_out = std::clamp<uint64_t>(wanted, 1, options_.held_out_max);
    held_out_.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(held_out));
    training_.assign(order.begin() + static_cast<std::ptrdiff_t>(held_out), order.end());
  }
  // A new epoch is in a new order, made from the last one's.
  void ShuffleEpoch(uint64_t epoch) {
    Random random = random_.Split(epoch);
    random.Shuffle(training_);
  }
  // The next update's sequences.
  std::vector<int32_t> NextBatch();
  Result<double> Update();
  double HeldOutLoss();
  // True: this is the best so far, by enough to go on.
  bool Judge(double loss);
  bool Stalled() const { return options_.patience > 0 && since_better_ >= options_.patience; }
  std::string StopReason() const;
  // Where the loss stopped falling, a lower rate may still lower it.
  Status CutRate();
  // After an update that is the last, or has come to the next evaluation.
  Status Evaluate(const WarmupCallback& callback);
  Status Save();
  double Elapsed() const {
    return std::chrono::duration<double>(SteadyClock::now() - began_).count();
  }

  const WarmupOptions& options_;
  std::vector<TrainSequence> rows_;
  std::vector<std::vector<double>> no_advantages_;
  PolicyScorer scorer_;
  AdamW optimizer_;
  Random random_;
  std::vector<int32_t> training_, held_out_;
  size_t next_ = 0;
  WarmupReport report_;
  NamedTensors best_;
  uint64_t since_better_ = 0;
  uint64_t cuts_ = 0;
  double rate_factor_ = 1;
  double to_beat_ = 0;
  double loss_sum_ = 0;  // since the last evaluation
  uint64_t losses_ = 0;
  double earlier_seconds_ = 0;  // before it was interrupted
  double saved_at_ = 0;         // Elapsed() then
  SteadyClock::time_point began_ = SteadyClock::now();
};

WarmupIdentity Warmup::Identity() const {
  uint64_t hash = 0;
  for (const TrainSequence& row : rows_) {
    for (const auto& part :
         {std::string_view(reinterpret_cast<const char*>(row.ids.data()), row.ids.size() * 4),
          std::string_view(reinterpret_cast<const char*>(row.mask.data()), row.mask.size())}) {
      hash = MixHash(hash, StableHash(part));
    }
  }
  return {hash, options_.seed, options_.held_out_fraction, options_.batch_tokens};
}

Status Warmup::GoOnFrom(const WarmupState& state) {
  TM_RETURN_IF_ERROR(scorer_.model().Restore(state.parameters));
  TM_RETURN_IF_ERROR(
      optimizer_.Restore(scorer_.model().parameters(), state.moments, state.optimizer_steps));
  if (state.next > training_.size())
    return Invalid("more sequences were gone through than there are");
  report_ = state.report;
  for (uint64_t epoch = 1; epoch <= report_.last.epoch; ++epoch) ShuffleEpoch(epoch);
  next_ = state.next;
  since_better_ = state.since_better;
  cuts_ = state.cuts;
  rate_factor_ = state.rate_factor;
  to_beat_ = state.to_beat;
  loss_sum_ = state.loss_sum;
  losses_ = state.losses;
  earlier_seconds_ = state.report.last.seconds;
  for (const auto& [name, leaf] : scorer_.model().parameters()) {
    const auto kept = state.best.find(name);
    if (kept == state.best.end()) return Corrupt("the best weights lack " + name);
    best_[name] = kept->second.to(leaf.device());
  }
  return Ok();
}

Status Warmup::Save() {
  WarmupState state;
  state.identity = Identity();
  state.report = report_;
  state.report.last.seconds = earlier_seconds_ + Elapsed();
  state.next = next_;
  state.since_better = since_better_;
  state.cuts = cuts_;
  state.rate_factor = rate_factor_;
  state.to_beat = to_beat_;
  state.loss_sum = loss_sum_;
  state.losses = losses_;
  state.optimizer_steps = optimizer_.steps();
  for (const auto& [name, leaf] : scorer_.model().parameters()) {
    state.parameters[name] = leaf.detach();
  }
  state.best = best_;
  state.moments = optimizer_.State();
  saved_at_ = Elapsed();
  return SaveWarmup(state, scorer_.model().config(), options_.output);
}

std::vector<int32_t> Warmup::NextBatch() {
  std::vector<int32_t> batch;
  int64_t tokens = 0;
  while (batch.empty() || tokens < options_.batch_tokens) {
    if (next_ == training_.size()) {
      if (!batch.empty()) break;  // the rest of an epoch is a smaller batch
      next_ = 0;
    }
    if (next_ == 0) ShuffleEpoch(++report_.last.epoch);
    batch.push_back(training_[next_++]);
    tokens += static_cast<int64_t>(rows_[static_cast<size_t>(batch.back())].ids.size());
  }
  report_.last.tokens += static_cast<uint64_t>(tokens);
  return batch;
}

Result<double> Warmup::Update() {
  const std::vector<int32_t> batch = NextBatch();
  const auto parts = PackMicrobatches(rows_, no_advantages_, batch, options_.microbatch_tokens);
  double tokens = 0;
  for (const Microbatch& part : parts) tokens += static_cast<double>(part.trained_tokens);
  scorer_.ZeroGrad();
  double loss = 0;
  for (const Microbatch& part : parts) {
    const PolicyScores scores =
        scorer_.Score(MakeMicroTensors(part, scorer_.fused(), scorer_.device()), true);
    const at::Tensor part_loss = -scores.logprobs.sum() / tokens;
    scorer_.Backward(part_loss, scores);
    loss += part_loss.item<double>();
  }
  const double norm = scorer_.GradNorm();
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    return Internal("the loss of step " + std::to_string(report_.last.step) +
                    " is not a finite number; try a lower learning rate");
  }
  const double clip = options_.grad_clip;
  optimizer_.Step(scorer_.leaves(),
                  rate_factor_ * LearningRateAt(options_.schedule, report_.last.step),
                  clip > 0 && norm > clip ? clip / norm : 1.0);
  ++report_.last.step;
  return loss;
}

double Warmup::HeldOutLoss() {
  double sum = 0, tokens = 0;
  const auto parts = PackMicrobatches(rows_, no_advantages_, held_out_, options_.microbatch_tokens);
  for (const Microbatch& part : parts) {
    const PolicyScores scores =
        scorer_.Score(MakeMicroTensors(part, scorer_.fused(), scorer_.device()), false);
    sum -= scores.logprobs.sum().item<double>();
    tokens += static_cast<double>(part.trained_tokens);
  }
  return sum / tokens;
}

bool Warmup::Judge(double loss) {
  report_.last.held_out_loss = loss;
  const bool first = best_.empty();
  if (first || loss < report_.best_held_out_loss) {
    const at::NoGradGuard no_grad;
    report_.best_held_out_loss = loss;
    report_.best_step = report_.last.step;
    for (const auto& [name, leaf] : scorer_.model().parameters()) best_[name] = leaf.clone();
  }
  report_.last.best_held_out_loss = report_.best_held_out_loss;
  // Many small steps down count together: what has to be beaten stays until it is beaten by enough.
  if (!first && !(loss < to_beat_ * (1 - options_.least_improvement))) return false;
  to_beat_ = loss;
  return true;
}

std::string Warmup::StopReason() const {
  if (Stalled()) return "held-out loss stopped falling";
  if (report_.last.step >= options_.max_steps) return "step limit";
  if (options_.max_seconds > 0 && Elapsed() >= options_.max_seconds) return kStoppedByClock;
  return "";
}

Status Warmup::CutRate() {
  ++cuts_;
  rate_factor_ *= kRateCut;
  since_better_ = 0;
  return scorer_.model().Restore(best_);
}

Status Warmup::Evaluate(const WarmupCallback& callback) {
  since_better_ = Judge(HeldOutLoss()) ? 0 : since_better_ + 1;
  report_.last.train_loss = loss_sum_ / static_cast<double>(losses_);
  report_.last.seconds = earlier_seconds_ + Elapsed();
  report_.last.tokens_per_second = static_cast<double>(report_.last.tokens) / report_.last.seconds;
  loss_sum_ = 0;
  losses_ = 0;
  if (Stalled() && cuts_ < options_.cuts) TM_RETURN_IF_ERROR(CutRate());
  report_.stopped = StopReason();
  if (callback && !callback(report_.last) && report_.stopped.empty())
    report_.stopped = "interrupted";
  return Ok();
}

Result<WarmupReport> Warmup::Run(const WarmupCallback& callback) {
  report_.examples = training_.size();
  report_.held_out = held_out_.size();
  report_.parameters = static_cast<uint64_t>(scorer_.model().config().ParameterCount());
  if (best_.empty()) {
    report_.first_held_out_loss = HeldOutLoss();
    Judge(report_.first_held_out_loss);
  } else {
    report_.stopped = StopReason();  // it went on with other limits
  }
  const bool saves = !options_.output.empty();
  while (report_.stopped.empty()) {
    TM_ASSIGN_OR_RETURN(const double loss, Update());
    loss_sum_ += loss;
    ++losses_;
    const bool out_of_time = options_.max_seconds > 0 && Elapsed() >= options_.max_seconds;
    const bool last = report_.last.step >= options_.max_steps || out_of_time;
    if (last || report_.last.step % options_.evaluate_every_steps == 0) {
      TM_RETURN_IF_ERROR(Evaluate(callback));
    }
    const bool asked = report_.stopped.empty() && options_.stop && options_.stop();
    if (asked) {
      report_.stopped = "interrupted";
      report_.unfinished = true;
    }
    const bool due = report_.stopped.empty() && Elapsed() - saved_at_ >= options_.save_seconds;
    if (saves && (asked || due)) TM_RETURN_IF_ERROR(Save());
  }
  return report_;
}

Status CheckFolder(const std::string& folder) {
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  if (access(folder.c_str(), W_OK | X_OK) == 0) return Ok();
  return FileFailure(folder, "cannot write into it", errno);
}

// Before hours of work: whether the model may be put where it is to go.
Status CheckOutput(const WarmupOptions& options) {
  if (options.output.empty()) {
    return options.resume ? Invalid("--resume needs the --out of the interrupted warmup") : Ok();
  }
  TM_RETURN_IF_ERROR(CheckFolder(ParentOf(options.output)));
  if (options.replace) {
    if (options.resume) return Invalid("--resume goes on, --replace begins anew: give one of them");
    return Ok();
  }
  TM_RETURN_IF_ERROR(CheckModelPlace(options.output, /*replace=*/false));
  const std::string interrupted = WarmupFolder(options.output);
  if (!options.resume && std::filesystem::exists(interrupted)) {
    return Exists(interrupted + " is of an interrupted warmup; --resume goes on with it, " +
                  "--replace begins anew");
  }
  return Ok();
}

Result<WarmupReport> RunChecked(const WarmupOptions& options, const WarmupCallback& callback) {
  TM_RETURN_IF_ERROR(CheckOutput(options));
  TM_ASSIGN_OR_RETURN(const auto weights, StartingWeights(options));
  TM_ASSIGN_OR_RETURN(auto rows, Sequences(options, weights->config()));
  if (rows.size() < 2) {
    return Invalid(options.demonstrations + ": one demonstration is not enough to hold one out");
  }
  TM_ASSIGN_OR_RETURN(auto model, TrainableModel::FromWeights(*weights));
  Warmup warmup(options, std::move(rows), std::move(model));
  if (options.resume) {
    TM_ASSIGN_OR_RETURN(const WarmupState state, LoadWarmup(options.output, warmup.Identity()));
    TM_RETURN_IF_ERROR(warmup.GoOnFrom(state).WithContext(WarmupFolder(options.output)));
  } else if (options.replace) {
    ForgetWarmup(options.output);
  }
  TM_ASSIGN_OR_RETURN(const WarmupReport report, warmup.Run(callback));
  if (options.output.empty() || report.unfinished) return report;
  TM_ASSIGN_OR_RETURN(const auto kept, warmup.Kept());
  TM_RETURN_IF_ERROR(
      SaveModelDirectory(*kept, options.output, TokenizerDir(options), options.replace));
  ForgetWarmup(options.output);
  return report;
}

}  // namespace

Result<WarmupReport> RunWarmup(const WarmupOptions& options, const WarmupCallback& callback) {
  TM_RETURN_IF_ERROR(ValidateWarmupOptions(options));
  at::set_num_threads(options.threads);
  return CatchTorch<WarmupReport>("warming up", [&] { return RunChecked(options, callback); });
}

}  // namespace tidemill
