#include "learner/remote/remote_step.h"

#include <chrono>
#include <cmath>

namespace tidemill {
namespace {

using Rows = std::vector<std::vector<float>>;

const char* ProximalWord(const ObjectiveConfig& objective, bool first_pass) {
  switch (objective.proximal) {
    case ProximalKind::kBehaviour:
      return "behaviour";
    case ProximalKind::kRecompute:
      return first_pass ? "given" : "current";
    case ProximalKind::kInterpolate:
      return "interpolate";
  }
  TM_CHECK(false, "a proximal policy that does not exist");
}

// What every rank needs of the rows: ids, which of them are trained, and who computes which.
RankMessage PartsOf(const Minibatch& minibatch) {
  RankMessage message;
  message.words["parts"] = nlohmann::json::array();
  std::vector<int32_t>&ids = message.ints["ids"], &mask = message.ints["mask"];
  for (size_t i = 0; i < minibatch.parts.size(); ++i) {
    const Microbatch& part = minibatch.parts[i];
    nlohmann::json rows = nlohmann::json::array();
    for (size_t row = 0; row < part.rows(); ++row) {
      rows.push_back(part.offsets[row + 1] - part.offsets[row]);
    }
    message.words["parts"].push_back(
        {{"rank", minibatch.ranks[i]}, {"rows", rows}, {"temperatures", part.temperatures}});
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    mask.insert(mask.end(), part.mask.begin(), part.mask.end());
  }
  return message;
}

// Values by sequence in the order of the parts' trained tokens.
std::vector<float> InOrder(const Minibatch& minibatch, const Rows& values) {
  std::vector<float> all;
  for (const Microbatch& part : minibatch.parts) {
    for (const int32_t sequence : part.sequences) {
      const std::vector<float>& row = values[static_cast<size_t>(sequence)];
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return all;
}

// And back. kUnavailable: not as many as there are tokens.
Result<Rows> BySequence(const StepBatch& step, const Minibatch& minibatch,
                        const std::vector<float>& all) {
  Rows rows(step.sequences.size());
  size_t at = 0;
  for (const Microbatch& part : minibatch.parts) {
    for (const int32_t index : part.sequences) {
      const auto s = static_cast<size_t>(index);
      const size_t tokens = step.sequences[s].trained_tokens;
      if (tokens > all.size() - at) return Unavailable("the ranks score fewer tokens than asked");
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(at);
      rows[s].assign(from, from + static_cast<std::ptrdiff_t>(tokens));
      at += tokens;
    }
  }
  if (at != all.size()) return Unavailable("the ranks score more tokens than asked");
  return rows;
}

template <typename T>
std::vector<float> Trained(const Minibatch& minibatch, std::vector<T> Microbatch::*of) {
  std::vector<float> values;
  for (const Microbatch& part : minibatch.parts) {
    for (size_t i = 0; i < part.ids.size(); ++i) {
      if (part.mask[i] != 0) values.push_back(static_cast<float>((part.*of)[i]));
    }
  }
  return values;
}

}  // namespace

RemoteStep::RemoteStep(RankLink& link, RemoteStepOptions options)
    : link_(link), options_(std::move(options)), watch_(options_.spike_factor) {}

bool RemoteStep::NeedsFirstPass() const {
  const uint64_t updates = uint64_t{options_.epochs} * options_.minibatches;
  return options_.objective.NeedsValues() ||
         (options_.objective.proximal == ProximalKind::kRecompute && updates > 1);
}

MinibatchOptions RemoteStep::Cut() const {
  return {options_.minibatches, options_.microbatch_tokens, options_.seed, link_.ranks()};
}

Result<Rows> RemoteStep::Score(const StepBatch& step, const Minibatch& all, const char* of,
                               Rows* values) {
  RankMessage ask = PartsOf(all);
  ask.words["verb"] = "score";
  ask.words["of"] = of;
  TM_ASSIGN_OR_RETURN(RankMessage answer, link_.Ask(ask));
  if (values != nullptr) {
    TM_ASSIGN_OR_RETURN(*values, BySequence(step, all, answer.floats["values"]));
  }
  return BySequence(step, all, answer.floats["logprobs"]);
}

Result<RemoteStep::Known> RemoteStep::ScoreBefore(const StepBatch& step) {
  Known known;
  const bool first_pass = NeedsFirstPass(), reference = options_.objective.NeedsReference();
  if (!first_pass && !reference) return known;
  Minibatch all;
  PackForRanks(step, step.Trainable(), Cut(), all);
  Rows values;
  const bool vtrace = options_.objective.NeedsValues();
  if (first_pass) {
    TM_ASSIGN_OR_RETURN(known.proximal, Score(step, all, "policy", vtrace ? &values : nullptr));
  }
  if (reference) {
    TM_ASSIGN_OR_RETURN(known.reference, Score(step, all, "reference", nullptr));
  }
  if (!vtrace) return known;
  known.advantages.resize(step.sequences.size());
  known.value_targets.resize(step.sequences.size());
  for (const int32_t index : step.Trainable()) {
    const auto s = static_cast<size_t>(index);
    const TrainSequence& sequence = step.sequences[s];
    std::vector<double> log_ratio, value(values[s].begin(), values[s].end());
    for (size_t i = 0; i < sequence.ids.size(); ++i) {
      if (sequence.mask[i] == 0) continue;
      log_ratio.push_back(known.proximal[s][log_ratio.size()] - sequence.behaviour[i]);
    }
    const VtraceOutput out =
        SequenceVtrace(options_.objective, sequence, step.turn_rewards[s], log_ratio, value);
    known.advantages[s].assign(out.advantages.begin(), out.advantages.end());
    known.value_targets[s].assign(out.vs.begin(), out.vs.end());
  }
  return known;
}

RankMessage RemoteStep::UpdateMessage(const Minibatch& minibatch, const Known& known,
                                      uint64_t steps) const {
  const ObjectiveConfig& o = options_.objective;
  RankMessage ask = PartsOf(minibatch);
  ask.words["verb"] = "update";
  ask.words["rate"] = LearningRateAt(options_.schedule, steps);
  ask.words["clip"] = options_.grad_clip;
  ask.words["totals"] = {{"tokens", minibatch.tokens}, {"sequences", minibatch.sequences}};
  const ObjectiveWords names = WordsOf(o);
  ask.words["objective"] = {{"ratio", names.ratio},
                            {"surrogate", names.surrogate},
                            {"correction", names.correction},
                            {"kl", names.kl},
                            {"aggregate", names.aggregate},
                            {"proximal", ProximalWord(o, NeedsFirstPass())},
                            {"clip_low", o.clip_low},
                            {"clip_high", o.clip_high},
                            {"cap", o.cap},
                            {"low", o.low},
                            {"high", o.high},
                            {"length", o.length},
                            {"kl_coefficient", o.kl_coefficient},
                            {"entropy_coefficient", o.entropy_coefficient},
                            {"value_coefficient", o.value_coefficient}};
  ask.floats["behaviour"] = Trained(minibatch, &Microbatch::behaviour);
  ask.floats["advantages"] = o.NeedsValues() ? InOrder(minibatch, known.advantages)
                                             : Trained(minibatch, &Microbatch::advantages);
  if (o.proximal == ProximalKind::kRecompute && NeedsFirstPass()) {
    ask.floats["proximal"] = InOrder(minibatch, known.proximal);
  }
  if (o.proximal == ProximalKind::kInterpolate) {
    ask.floats["lags"] = Trained(minibatch, &Microbatch::lags);
  }
  if (o.NeedsReference()) ask.floats["reference"] = InOrder(minibatch, known.reference);
  if (o.NeedsValues()) ask.floats["value_targets"] = InOrder(minibatch, known.value_targets);
  return ask;
}

Status RemoteStep::Update(const StepBatch& step, const Minibatch& minibatch, const Known& known,
                          uint64_t steps, bool first_epoch, StepFigures& figures,
                          std::vector<std::string>& warnings) {
  TM_ASSIGN_OR_RETURN(RankMessage answer, link_.Ask(UpdateMessage(minibatch, known, steps)));
  if (!answer.words.value("finite", false)) {
    return Internal("the loss (" + answer.words.value("loss", nlohmann::json()).dump() +
                    ") or the gradient (" +
                    answer.words.value("grad_norm", nlohmann::json()).dump() +
                    ") is not a finite number; the weights are unchanged by this step");
  }
  TM_ASSIGN_OR_RETURN(const double loss, NumberIn(answer, "loss"));
  TM_ASSIGN_OR_RETURN(const double norm, NumberIn(answer, "grad_norm"));
  const auto sums = answer.words.value("sums", std::vector<double>());
  TM_ASSIGN_OR_RETURN(const Rows now, BySequence(step, minibatch, answer.floats["logprobs"]));
  if (sums.size() != 9) return Unavailable("the ranks answer without the sums of an update");
  figures.sums.Add(
      {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7], sums[8]});
  figures.loss += loss;
  figures.largest_norm = std::max(figures.largest_norm, norm);
  ++figures.updates;
  if (watch_.Add(norm)) {
    warnings.push_back("gradient spike: norm " + std::to_string(norm) + ", running median " +
                       std::to_string(watch_.median()));
  }
  const bool given = options_.objective.proximal == ProximalKind::kRecompute && NeedsFirstPass();
  for (const Microbatch& part : minibatch.parts) {
    figures.computed_tokens += static_cast<int64_t>(part.ids.size());
    if (!first_epoch) continue;
    for (const int32_t index : part.sequences) {
      const auto s = static_cast<size_t>(index);
      const TrainSequence& sequence = step.sequences[s];
      for (size_t i = 0, k = 0; i < sequence.ids.size(); ++i) {
        if (sequence.mask[i] == 0) continue;
        const double before = given ? known.proximal[s][k] : now[s][k];
        figures.log_ratios.push_back(before - sequence.behaviour[i]);
        if (sequence.lags[i] == 0) figures.differences.push_back(figures.log_ratios.back());
        ++k;
      }
    }
  }
  return Ok();
}

Status RemoteStep::TryUpdates(const StepBatch& step, uint64_t number, const Known& known,
                              const RemoteProgress& progress, StepFigures& figures,
                              std::vector<std::string>& warnings) {
  for (uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
    for (const Minibatch& minibatch : CutMinibatches(step, number, epoch, Cut())) {
      TM_RETURN_IF_ERROR(
          Update(step, minibatch, known, progress.steps, epoch == 0, figures, warnings));
    }
  }
  return Ok();
}

Result<std::map<std::string, double>> RemoteStep::Train(const v1::Batch& batch,
                                                        RemoteProgress& progress,
                                                        std::vector<std::string>& warnings) {
  const auto began = std::chrono::steady_clock::now();
  FlattenOptions flatten;
  flatten.lag_of = [&](uint64_t version) { return progress.versions.Lag(version, batch.step()); };
  flatten.vocabulary = options_.vocabulary;
  flatten.supports = false;
  TM_ASSIGN_OR_RETURN(const StepBatch step,
                      PrepareStep(batch, options_.objective.advantage, options_.credit, flatten,
                                  options_.objective.distill));
  TM_ASSIGN_OR_RETURN(const Known known, ScoreBefore(step));
  watch_.Restore(progress.gradient_norms);
  const bool several = uint64_t{options_.epochs} * options_.minibatches > 1;
  if (several) TM_RETURN_IF_ERROR(link_.Ask({.words = {{"verb", "begin"}}}).status());
  StepFigures figures;
  const Status tried = TryUpdates(step, batch.step(), known, progress, figures, warnings);
  if (several && !link_.lost()) {
    TM_RETURN_IF_ERROR(link_.Ask({.words = {{"verb", tried.ok() ? "end" : "undo"}}}).status());
  }
  if (!tried.ok()) return tried.WithContext("step " + std::to_string(batch.step()));
  std::map<std::string, double> metrics;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  AddStepMetrics(figures, options_.objective, step, options_.epochs, took.count(), metrics);
  metrics["lr"] = LearningRateAt(options_.schedule, progress.steps);
  metrics["token_budget"] = static_cast<double>(options_.microbatch_tokens);
  if (!warnings.empty()) metrics["grad_spike"] = static_cast<double>(warnings.size());
  ++progress.steps;
  progress.gradient_norms = watch_.Save();
  return metrics;
}

RankMessage RemoteStep::Canary(const std::vector<int32_t>& ids) {
  RankMessage message;
  message.words = {{"of", "policy"},
                   {"parts", {{{"rank", 0}, {"rows", {ids.size()}}, {"temperatures", {1.0}}}}}};
  message.ints["ids"] = ids;
  message.ints["mask"].assign(ids.size(), 1);
  message.ints["mask"].front() = 0;
  return message;
}

}  // namespace tidemill
