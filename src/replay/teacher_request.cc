#include "replay/teacher_request.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace tidemill {
namespace {

constexpr size_t kReasonsMax = 4;  // of a turn that the teacher reads, each for itself

// How many scores a turn may have.
size_t ScoresOfATurn(const ReplayOptions& options) {
  return options.hints == TeacherHints::kJudgeStrongest ? kReasonsMax : 1;
}

// The stored ids, a sequence for each branch, with every turn in a span of its own.
void AddSequences(const v1::Trajectory& trajectory, v1::TeacherRequest& request) {
  v1::TaughtSequence* row = request.add_sequences();
  *row->mutable_ids() = trajectory.prompt_ids();
  for (int t = 0; t < trajectory.turns_size(); ++t) {
    const v1::Turn& turn = trajectory.turns(t);
    if (turn.prompt_ids_size() > 0) {
      row = request.add_sequences();
      *row->mutable_ids() = turn.prompt_ids();
    }
    if (turn.ids_size() > 0) {
      v1::TaughtSpan& span = *row->add_spans();
      span.set_turn(static_cast<uint32_t>(t));
      span.set_begin(static_cast<uint32_t>(row->ids_size()));
      span.set_tokens(static_cast<uint32_t>(turn.ids_size()));
    }
    row->mutable_ids()->MergeFrom(turn.ids());
    row->mutable_ids()->MergeFrom(turn.observation_ids());
  }
  auto& rows = *request.mutable_sequences();
  rows.erase(std::remove_if(rows.begin(), rows.end(),
                            [](const v1::TaughtSequence& one) { return one.spans_size() == 0; }),
             rows.end());
}

bool WentWrong(const v1::Turn& turn) {
  if (!turn.malformed().empty()) return true;
  return std::any_of(turn.calls().begin(), turn.calls().end(), [](const v1::ToolCall& call) {
    if (!call.handle().empty()) return false;  // its result stands behind a later turn
    const bool failed =
        call.outcome() != v1::OUTCOME_OK && call.outcome() != v1::OUTCOME_UNAVAILABLE;
    return !call.skipped() && (failed || call.tests_passed() < call.tests_total());
  });
}

// The reasons for which judges call the turn bad, the longest first.
std::vector<std::string> ReasonsAgainst(const v1::Verdict& verdict, int turn) {
  std::vector<std::string> reasons;
  for (const v1::RewardPart& part : verdict.parts()) {
    for (const v1::Judgement& judgement : part.judgements()) {
      if (judgement.turn() != static_cast<uint32_t>(turn) + 1 || judgement.value() >= 0) continue;
      for (const v1::JudgeVote& vote : judgement.votes()) {
        if (vote.valid() && vote.value() < 0) reasons.push_back(vote.reason());
      }
      reasons.push_back(judgement.reason());
    }
  }
  std::sort(reasons.begin(), reasons.end(), [](const std::string& a, const std::string& b) {
    return std::pair(b.size(), a) < std::pair(a.size(), b);
  });
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
  if (!reasons.empty() && reasons.back().empty()) reasons.pop_back();
  return reasons;
}

// What the teacher reads between a turn and the same turn again: ids that were stored, or that the
// protocol makes of a judge's words. None: the turn is not scored.
std::vector<std::vector<uint32_t>> HintsFor(const ReplayMember& member, int turn,
                                            const v1::Task* task, const ReplayOptions& options) {
  const v1::Turn& of = member.trajectory.turns(turn);
  std::vector<std::vector<uint32_t>> hints;
  if (options.hints == TeacherHints::kErrors) {
    if (WentWrong(of) && !of.observation_ids().empty())
      hints.emplace_back(of.observation_ids().begin(), of.observation_ids().end());
    return hints;
  }
  if (task == nullptr) return hints;
  const size_t most = ScoresOfATurn(options);
  for (const std::string& reason : ReasonsAgainst(*member.verdict, turn)) {
    if (hints.size() == most) break;
    const std::vector<int32_t> ids = options.hint_ids(*task, reason);
    if (!ids.empty()) hints.emplace_back(ids.begin(), ids.end());
  }
  return hints;
}

// Before a turn that went wrong the teacher reads the turn and what was said to it: that is where
// the policy would try again. It scores what was written at first.
void AddHinted(const ReplayMember& member, const v1::Task* task, const ReplayOptions& options,
               v1::TeacherRequest& request) {
  const v1::Trajectory& trajectory = member.trajectory;
  google::protobuf::RepeatedField<uint32_t> before = trajectory.prompt_ids();
  for (int t = 0; t < trajectory.turns_size(); ++t) {
    const v1::Turn& turn = trajectory.turns(t);
    if (turn.prompt_ids_size() > 0) before = turn.prompt_ids();
    before.MergeFrom(turn.ids());
    for (const std::vector<uint32_t>& hint : HintsFor(member, t, task, options)) {
      const uint64_t all = static_cast<uint64_t>(before.size() + turn.ids_size()) + hint.size();
      if (turn.ids().empty() || all > options.limits.tokens) continue;
      if (static_cast<uint64_t>(request.sequences_size()) >= options.limits.turns) break;
      v1::TaughtSequence& row = *request.add_sequences();
      *row.mutable_ids() = before;
      row.mutable_ids()->Add(hint.begin(), hint.end());
      v1::TaughtSpan& span = *row.add_spans();
      span.set_turn(static_cast<uint32_t>(t));
      span.set_begin(static_cast<uint32_t>(row.ids_size()));
      span.set_tokens(static_cast<uint32_t>(turn.ids_size()));
      row.mutable_ids()->MergeFrom(turn.ids());
    }
    before.MergeFrom(turn.observation_ids());
  }
}

// How far the teacher's log-probabilities of a turn are from the sampler's, a token.
double Change(const v1::TurnScores& scores, const v1::Turn& turn) {
  double sum = 0;
  int known = 0;
  for (int i = 0, unknown = 0; i < scores.logprobs_size(); ++i) {
    if (unknown < scores.unknown_size() && scores.unknown(unknown) == static_cast<uint32_t>(i)) {
      ++unknown;
      continue;
    }
    sum += std::abs(double{scores.logprobs(i)} - turn.logprobs(i));
    ++known;
  }
  return known == 0 ? -1 : sum / known;
}

}  // namespace

v1::TeacherRequest MakeTeacherRequest(const ReplayMember& member, const v1::Task* task,
                                      const ReplayOptions& options) {
  v1::TeacherRequest request;
  request.set_temperature(member.trajectory.sampling().temperature());
  if (options.hints == TeacherHints::kNone) {
    AddSequences(member.trajectory, request);
  } else {
    AddHinted(member, task, options, request);
  }
  return request;
}

std::vector<v1::TurnScores> Strongest(const v1::TeacherAnswer& answer, const v1::Trajectory& of) {
  std::vector<v1::TurnScores> chosen;
  for (const v1::TurnScores& scores : answer.turns()) {
    const v1::Turn& turn = of.turns(static_cast<int>(scores.turn()));
    const auto rival = std::find_if(chosen.begin(), chosen.end(), [&](const v1::TurnScores& one) {
      return one.turn() == scores.turn();
    });
    if (rival == chosen.end()) {
      chosen.push_back(scores);
    } else if (Change(scores, turn) > Change(*rival, turn)) {
      *rival = scores;
    }
  }
  return chosen;
}

Status CheckTaught(const v1::TeacherAnswer& answer, const v1::Trajectory& of,
                   const ReplayOptions& options) {
  const size_t each = ScoresOfATurn(options);
  std::vector<size_t> seen(static_cast<size_t>(of.turns_size()));
  for (const v1::TurnScores& scores : answer.turns()) {
    if (scores.turn() >= seen.size() || seen[scores.turn()] == each)
      return Invalid("TeacherAnswer.turns: turn " + std::to_string(scores.turn()) + " of " +
                     std::to_string(seen.size()) + ", or too often");
    ++seen[scores.turn()];
    const int ids = of.turns(static_cast<int>(scores.turn())).ids_size();
    if (scores.logprobs_size() != ids)
      return Invalid("TeacherAnswer.turns: " + std::to_string(scores.logprobs_size()) +
                     " scores for " + std::to_string(ids) + " ids");
  }
  return Ok();
}

}  // namespace tidemill
