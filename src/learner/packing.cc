#include "learner/packing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "core/ids.h"
#include "core/token_experts.h"

namespace tidemill {
namespace {

void Append(TrainSequence& row, uint32_t id, int32_t turn) {
  row.ids.push_back(static_cast<int32_t>(id));
  row.mask.push_back(0);
  row.behaviour.push_back(0);
  row.versions.push_back(0);
  row.lags.push_back(0);
  row.turns.push_back(turn);
  row.teacher.push_back(0);
  row.taught.push_back(0);
  row.turn_ends.push_back(0);
  row.support_of.push_back(-1);
}

Status CheckTurn(const v1::Turn& turn, int index) {
  const std::string name = "turn " + std::to_string(index) + ": ";
  if (turn.logprobs_size() != turn.ids_size()) {
    return Invalid(name + std::to_string(turn.ids_size()) + " ids but " +
                   std::to_string(turn.logprobs_size()) + " log-probabilities");
  }
  uint64_t versioned = 0;
  for (const auto& run : turn.versions()) versioned += run.tokens();
  if (versioned != static_cast<uint64_t>(turn.ids_size())) {
    return Invalid(name + std::to_string(turn.ids_size()) + " ids but versions for " +
                   std::to_string(versioned));
  }
  for (float logprob : turn.logprobs()) {
    // Rounding may put a certain token a little above 0.
    if (!(logprob <= 1e-3f) || !std::isfinite(logprob)) {
      return Invalid(name + std::to_string(logprob) + " is not a log-probability");
    }
  }
  return Ok();
}

// The teacher's scores of the turn; null: it was not asked.
const v1::TurnScores* TaughtTurn(const v1::Sample& sample, int turn) {
  for (const v1::TurnScores& scores : sample.teacher()) {
    if (scores.turn() == static_cast<uint32_t>(turn)) return &scores;
  }
  return nullptr;
}

Status CheckTaught(const v1::TurnScores& scores, const v1::Turn& turn, int index) {
  if (scores.logprobs_size() == turn.ids_size()) return Ok();
  return Invalid("turn " + std::to_string(index) + ": " + std::to_string(turn.ids_size()) +
                 " ids but " + std::to_string(scores.logprobs_size()) + " scores of the teacher");
}

// The turn's tokens are the last of the row.
void AddTaught(TrainSequence& row, const v1::TurnScores& scores) {
  const size_t first = row.ids.size() - static_cast<size_t>(scores.logprobs_size());
  std::copy(scores.logprobs().begin(), scores.logprobs().end(),
            row.teacher.begin() + static_cast<std::ptrdiff_t>(first));
  std::fill(row.taught.begin() + static_cast<std::ptrdiff_t>(first), row.taught.end(), uint8_t{1});
  for (const uint32_t place : scores.unknown()) {
    if (first + place < row.taught.size()) row.taught[first + place] = 0;
  }
}

void AppendTurn(TrainSequence& row, const v1::Turn& turn, int index,
                const FlattenOptions& options) {
  int run = 0;
  uint32_t of_run = 0;
  for (int i = 0; i < turn.ids_size(); ++i) {
    while (of_run >= turn.versions(run).tokens()) {
      ++run;
      of_run = 0;
    }
    ++of_run;
    const uint64_t version = turn.versions(run).version();
    const uint64_t lag = options.lag_of ? options.lag_of(version) : 0;
    const bool too_old = turn.versions(run).masked();
    Append(row, turn.ids(i), index);
    row.mask.back() = too_old ? 0 : 1;
    row.behaviour.back() = turn.logprobs(i);
    row.versions.back() = version;
    row.lags.back() = static_cast<uint32_t>(std::min<uint64_t>(lag, UINT32_MAX));
    (too_old ? row.too_old_tokens : row.trained_tokens) += 1;
  }
  if (turn.ids_size() > 0) row.turn_ends.back() = 1;
}

// The turn's tokens are the last of the row.
Status AddSupports(TrainSequence& row, const v1::Turn& turn, int index, int64_t vocabulary) {
  if (!turn.has_supports()) return Ok();
  const std::string name = "turn " + std::to_string(index) + ": ";
  const v1::TokenSupports& supports = turn.supports();
  if (supports.set_of_size() != turn.ids_size()) {
    return Invalid(name + std::to_string(turn.ids_size()) + " ids but " +
                   std::to_string(supports.set_of_size()) + " supports");
  }
  const auto before = static_cast<int32_t>(row.supports.size());
  for (const std::string& set : supports.sets()) {
    auto runs = DecodeSupport(set, vocabulary > 0 ? vocabulary : INT32_MAX);
    if (!runs.ok()) return runs.status().WithContext("turn " + std::to_string(index));
    row.supports.push_back(std::move(*runs));
  }
  const size_t first = row.ids.size() - static_cast<size_t>(turn.ids_size());
  for (int i = 0; i < turn.ids_size(); ++i) {
    const size_t place = first + static_cast<size_t>(i);
    const uint32_t set = supports.set_of(i);
    if (set >= static_cast<uint32_t>(supports.sets_size()) ||
        !InRuns(row.supports[static_cast<size_t>(before) + set], row.ids[place])) {
      return Invalid(name + "id " + std::to_string(turn.ids(i)) +
                     " is not among those that it was drawn from");
    }
    row.support_of[place] = before + static_cast<int32_t>(set);
  }
  return Ok();
}

void LeaveOutSupported(TrainSequence& row) {
  for (size_t i = 0; i < row.ids.size(); ++i) {
    if (row.support_of[i] < 0) continue;
    row.support_of[i] = -1;
    if (row.mask[i] == 0) continue;
    row.mask[i] = 0;
    --row.trained_tokens;
    ++row.unnormalised_tokens;
  }
  row.supports.clear();
}

// Of the row's own sequence; what an earlier turn has, stays.
Status AddExperts(TrainSequence& row, const v1::Turn& turn, int index,
                  const ExpertChoices& choices) {
  if (!turn.has_experts() || choices.of_token == 0) return Ok();
  const std::string name = "turn " + std::to_string(index) + ": ";
  const TokenExperts given = ReadExperts(turn.experts());
  if (given.choices != choices.of_token) {
    return Invalid(name + "experts: " + std::to_string(given.choices) +
                   " choices for a token, the model makes " + std::to_string(choices.of_token));
  }
  if (given.first + given.rows() > row.ids.size()) {
    return Invalid(name + "experts: of " + std::to_string(given.first + given.rows()) +
                   " tokens, the sequence has " + std::to_string(row.ids.size()));
  }
  for (const uint16_t expert : given.chosen) {
    if (expert < choices.experts) continue;
    return Invalid(name + "experts: " + std::to_string(expert) + " is not one of " +
                   std::to_string(choices.experts));
  }
  const size_t width = choices.of_token;
  row.experts.resize(row.ids.size() * width);
  row.routed.resize(row.ids.size());
  for (size_t i = 0; i < given.rows(); ++i) {
    const size_t place = given.first + i;
    if (row.routed[place] != 0) continue;
    row.routed[place] = 1;
    std::copy_n(given.chosen.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                row.experts.begin() + static_cast<std::ptrdiff_t>(place * width));
  }
  return Ok();
}

// Rows behind the last turn's, and those in front of it where later turns have none.
void FitExperts(TrainSequence& row) {
  if (row.routed.empty()) return;
  const size_t width = row.experts.size() / row.routed.size();
  row.routed.resize(row.ids.size());
  row.experts.resize(row.ids.size() * width);
}

void CutTail(TrainSequence& row) {
  size_t keep = row.ids.size();
  while (keep > 0 && row.mask[keep - 1] == 0 && row.turn_ends[keep - 1] == 0) --keep;
  row.ids.resize(keep);
  row.mask.resize(keep);
  row.behaviour.resize(keep);
  row.versions.resize(keep);
  row.lags.resize(keep);
  row.turns.resize(keep);
  row.teacher.resize(keep);
  row.taught.resize(keep);
  row.turn_ends.resize(keep);
  row.support_of.resize(keep);
  FitExperts(row);
}

}  // namespace

namespace {

void Begin(TrainSequence& row, const google::protobuf::RepeatedField<uint32_t>& prompt,
           double temperature) {
  row.temperature = static_cast<float>(temperature);
  for (uint32_t id : prompt) Append(row, id, -1);
  row.prompt_tokens = row.ids.size();
}

Status CheckVocabulary(const TrainSequence& row, int64_t vocabulary) {
  for (int32_t id : row.ids) {
    if (vocabulary > 0 && (id < 0 || id >= vocabulary)) {
      return Invalid("id " + std::to_string(static_cast<uint32_t>(id)) +
                     " is outside the vocabulary of " + std::to_string(vocabulary));
    }
  }
  return Ok();
}

}  // namespace

Result<TrainSequence> Flatten(const v1::Sample& sample, const FlattenOptions& options) {
  TM_ASSIGN_OR_RETURN(std::vector<TrainSequence> rows, FlattenBranches(sample, options));
  if (rows.size() == 1) return std::move(rows[0]);
  return Invalid("trajectory " + TrajectoryKey::From(sample.trajectory().id()).ToString() +
                 ": has " + (rows.empty() ? "no turn" : "branches"));
}

Result<std::vector<TrainSequence>> FlattenBranches(const v1::Sample& sample,
                                                   const FlattenOptions& options) {
  const v1::Trajectory& trajectory = sample.trajectory();
  const std::string name = "trajectory " + TrajectoryKey::From(trajectory.id()).ToString();
  if (trajectory.turns().empty()) return std::vector<TrainSequence>();  // nothing was asked
  if (trajectory.prompt_ids_size() == 0) return Invalid(name + ": the prompt is empty");
  const double temperature = trajectory.sampling().temperature();
  if (!(temperature > 0) || !std::isfinite(temperature)) {
    return Invalid(name + ": sampled at temperature " + std::to_string(temperature) +
                   "; training needs one above 0");
  }
  std::vector<TrainSequence> rows(1);
  Begin(rows[0], trajectory.prompt_ids(), temperature);
  for (int t = 0; t < trajectory.turns_size(); ++t) {
    const v1::Turn& turn = trajectory.turns(t);
    const Status checked = CheckTurn(turn, t);
    if (!checked.ok()) return checked.WithContext(name);
    if (turn.prompt_ids_size() > 0) Begin(rows.emplace_back(), turn.prompt_ids(), temperature);
    AppendTurn(rows.back(), turn, t, options);
    const Status drawn = AddSupports(rows.back(), turn, t, options.vocabulary);
    if (!drawn.ok()) return drawn.WithContext(name);
    const Status routed = AddExperts(rows.back(), turn, t, options.choices);
    if (!routed.ok()) return routed.WithContext(name);
    if (const v1::TurnScores* scores = TaughtTurn(sample, t)) {
      const Status fits = CheckTaught(*scores, turn, t);
      if (!fits.ok()) return fits.WithContext(name);
      AddTaught(rows.back(), *scores);
    }
    for (uint32_t id : turn.observation_ids()) Append(rows.back(), id, t);
  }
  for (TrainSequence& row : rows) {
    const Status right = CheckVocabulary(row, options.vocabulary);
    if (!right.ok()) return right.WithContext(name);
    if (!options.supports) LeaveOutSupported(row);
    CutTail(row);
  }
  return rows;
}

namespace {

// Behind rows of which nothing is known, or in front of such. `micro` has the row's ids already.
void AppendExperts(Microbatch& micro, const TrainSequence& row) {
  if (micro.routed.empty() && row.routed.empty()) return;
  const size_t width = row.routed.empty() ? micro.experts.size() / micro.routed.size()
                                          : row.experts.size() / row.routed.size();
  const size_t before = micro.ids.size() - row.ids.size();
  micro.routed.resize(before);
  micro.experts.resize(before * width);
  micro.routed.insert(micro.routed.end(), row.routed.begin(), row.routed.end());
  micro.experts.insert(micro.experts.end(), row.experts.begin(), row.experts.end());
  micro.routed.resize(micro.ids.size());
  micro.experts.resize(micro.ids.size() * width);
}

void AppendRow(Microbatch& micro, const TrainSequence& row, int32_t index,
               const std::vector<double>& advantages) {
  micro.ids.insert(micro.ids.end(), row.ids.begin(), row.ids.end());
  micro.mask.insert(micro.mask.end(), row.mask.begin(), row.mask.end());
  micro.behaviour.insert(micro.behaviour.end(), row.behaviour.begin(), row.behaviour.end());
  micro.versions.insert(micro.versions.end(), row.versions.begin(), row.versions.end());
  micro.lags.insert(micro.lags.end(), row.lags.begin(), row.lags.end());
  const auto sets = static_cast<int32_t>(micro.supports.size());
  for (const int32_t set : row.support_of) micro.support_of.push_back(set < 0 ? -1 : sets + set);
  micro.supports.insert(micro.supports.end(), row.supports.begin(), row.supports.end());
  AppendExperts(micro, row);
  for (size_t i = 0; i < row.ids.size(); ++i) {
    micro.positions.push_back(static_cast<int32_t>(i));
    micro.sequence_of.push_back(index);
    const bool counts = row.mask[i] != 0;
    const double extra = row.extra.empty() ? 0.0 : row.extra[i];
    micro.advantages.push_back(counts ? advantages.at(static_cast<size_t>(row.turns[i])) + extra
                                      : 0.0);
  }
  micro.offsets.push_back(static_cast<int32_t>(micro.ids.size()));
  micro.sequences.push_back(index);
  micro.temperatures.push_back(row.temperature);
  micro.prompts.push_back(static_cast<int32_t>(row.prompt_tokens));
  micro.longest = std::max(micro.longest, static_cast<int32_t>(row.ids.size()));
  micro.trained_tokens += row.trained_tokens;
}

}  // namespace

std::vector<int32_t> OrderByPrompt(std::span<const TrainSequence> sequences,
                                   std::span<const int32_t> chosen) {
  std::map<std::span<const int32_t>, size_t,
           bool (*)(std::span<const int32_t>, std::span<const int32_t>)>
      places([](std::span<const int32_t> a, std::span<const int32_t> b) {
        return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
      });
  std::vector<std::vector<int32_t>> together;
  for (int32_t index : chosen) {
    const TrainSequence& row = sequences[static_cast<size_t>(index)];
    const auto [place, fresh] =
        places.try_emplace(std::span(row.ids).first(row.prompt_tokens), together.size());
    if (fresh) together.emplace_back();
    together[place->second].push_back(index);
  }
  std::vector<int32_t> order;
  for (const auto& rows : together) order.insert(order.end(), rows.begin(), rows.end());
  return order;
}

namespace {

// What `row` would add to `micro`, whose rows it follows.
int64_t CostOf(const TrainSequence& row, const Microbatch& micro) {
  const auto last = static_cast<size_t>(micro.offsets[micro.rows() - 1]);
  const auto prompt = static_cast<size_t>(micro.prompts.back());
  const bool shared =
      prompt == row.prompt_tokens &&
      std::equal(row.ids.begin(), row.ids.begin() + static_cast<std::ptrdiff_t>(prompt),
                 micro.ids.begin() + static_cast<std::ptrdiff_t>(last));
  return static_cast<int64_t>(row.ids.size()) - (shared ? static_cast<int64_t>(prompt) : 0);
}

}  // namespace

std::vector<Microbatch> PackMicrobatches(std::span<const TrainSequence> sequences,
                                         std::span<const std::vector<double>> advantages,
                                         std::span<const int32_t> chosen, int64_t token_budget) {
  TM_CHECK(sequences.size() == advantages.size(), "every sequence needs its advantages");
  std::vector<int32_t> order;
  for (int32_t index : chosen) {
    if (sequences[static_cast<size_t>(index)].trained_tokens > 0) order.push_back(index);
  }
  std::vector<Microbatch> packed;
  int64_t cost = 0;
  for (int32_t index : OrderByPrompt(sequences, order)) {
    const TrainSequence& row = sequences[static_cast<size_t>(index)];
    if (!packed.empty()) cost += CostOf(row, packed.back());
    if (packed.empty() || cost > token_budget) {
      packed.emplace_back();
      packed.back().offsets.push_back(0);
      cost = static_cast<int64_t>(row.ids.size());
    }
    AppendRow(packed.back(), row, index, advantages[static_cast<size_t>(index)]);
  }
  return packed;
}

std::vector<std::vector<int32_t>> ShareOut(std::span<const TrainSequence> sequences,
                                           std::span<const int32_t> chosen, uint32_t shares) {
  TM_CHECK(shares > 0, "somebody must take them");
  const std::vector<int32_t> order = OrderByPrompt(sequences, chosen);
  size_t total = 0, before = 0;
  for (int32_t index : order) total += sequences[static_cast<size_t>(index)].ids.size();
  std::vector<std::vector<int32_t>> parts(shares);
  for (int32_t index : order) {
    const size_t length = sequences[static_cast<size_t>(index)].ids.size();
    // Where the middle of the row lies.
    const size_t share = total == 0 ? 0 : (2 * before + length) * shares / (2 * total);
    parts[std::min<size_t>(share, shares - 1)].push_back(index);
    before += length;
  }
  return parts;
}

}  // namespace tidemill
