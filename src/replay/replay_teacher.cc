// Asking a teacher for the log-probabilities of what the model wrote. Nothing waits for it: an
// episode whose scores are late is in a later batch, where it may be too old.
#include <algorithm>
#include <cmath>

#include "core/topics.h"
#include "replay/replay_loop.h"

namespace tidemill {
namespace {

constexpr size_t kTaughtAtOnce = 256;
constexpr size_t kReasonsMax = 4;  // of a turn that the teacher reads, each for itself

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

// One of each turn's scores: those that differ most from the sampler's.
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

// `each`: a turn may have so many scores.
Status CheckTaught(const v1::TeacherAnswer& answer, const v1::Trajectory& of, size_t each) {
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

}  // namespace

bool ReplayLoop::NeedsTeacher(const Member& member) const {
  return options_.teacher && !member.taught && !member.excluded &&
         member.trajectory.purpose() == v1::PURPOSE_TRAIN;
}

// What the teacher reads between a turn and the same turn again: ids that were stored, or that the
// protocol makes of a judge's words. None: the turn is not scored.
std::vector<std::vector<uint32_t>> ReplayLoop::HintsFor(const Member& member, int turn) const {
  const v1::Turn& of = member.trajectory.turns(turn);
  std::vector<std::vector<uint32_t>> hints;
  if (options_.hints == TeacherHints::kErrors) {
    if (WentWrong(of) && !of.observation_ids().empty())
      hints.emplace_back(of.observation_ids().begin(), of.observation_ids().end());
    return hints;
  }
  const v1::Task* task = tasks_.Find(member.trajectory.id().task());
  if (task == nullptr) return hints;
  const size_t most = options_.hints == TeacherHints::kJudgeStrongest ? kReasonsMax : 1;
  for (const std::string& reason : ReasonsAgainst(*member.verdict, turn)) {
    if (hints.size() == most) break;
    const std::vector<int32_t> ids = options_.hint_ids(*task, reason);
    if (!ids.empty()) hints.emplace_back(ids.begin(), ids.end());
  }
  return hints;
}

// Before a turn that went wrong the teacher reads the turn and what was said to it: that is where
// the policy would try again. It scores what was written at first.
void ReplayLoop::AddHinted(const Member& member, v1::TeacherRequest& request) const {
  const v1::Trajectory& trajectory = member.trajectory;
  google::protobuf::RepeatedField<uint32_t> before = trajectory.prompt_ids();
  for (int t = 0; t < trajectory.turns_size(); ++t) {
    const v1::Turn& turn = trajectory.turns(t);
    if (turn.prompt_ids_size() > 0) before = turn.prompt_ids();
    before.MergeFrom(turn.ids());
    for (const std::vector<uint32_t>& hint : HintsFor(member, t)) {
      const uint64_t all = static_cast<uint64_t>(before.size() + turn.ids_size()) + hint.size();
      if (turn.ids().empty() || all > options_.limits.tokens) continue;
      if (static_cast<uint64_t>(request.sequences_size()) >= options_.limits.turns) break;
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

void ReplayLoop::AskTeacher(const Asked& about, Time now) {
  Member& member = groups_.at(about.group).members.at(about.member);
  v1::TeacherRequest request;
  if (options_.hints == TeacherHints::kNone) {
    AddSequences(member.trajectory, request);
  } else {
    AddHinted(member, request);
  }
  if (request.sequences_size() == 0) {  // there is nothing to ask about
    member.taught = true;
    CompleteIfDone(about.group);
    return;
  }
  ++member.teacher_tries;
  member.asked_teacher = std::to_string(about.group) + "." + std::to_string(about.member) + "." +
                         std::to_string(member.trajectory.id().attempt()) + ".t" +
                         std::to_string(member.teacher_tries) + "@" + options_.worker;
  request.set_request_id(member.asked_teacher);
  request.set_temperature(member.trajectory.sampling().temperature());
  teacher_questions_.Ask(kTeacherTopic, std::move(request), about, now);
}

// Those that were stored before a resume, and those whose request or answer was lost.
void ReplayLoop::AskTeacherAgain(Time now) {
  if (!options_.teacher || draining_) return;
  std::vector<Asked> due = ask_teacher_.TakeDue(now);
  for (const auto& [id, about] : teacher_questions_.TakeLost(now)) due.push_back(about);
  for (const Asked& about : due) {
    Member* member = FindMember(about.group, about.member);
    if (member == nullptr || !NeedsTeacher(*member)) continue;  // gone or stale meanwhile
    member->asked_teacher.clear();
    if (member->teacher_tries < options_.score_tries) {
      AskTeacher(about, now);
      continue;
    }
    MarkStale(*member,
              "no scores of the teacher after " + std::to_string(member->teacher_tries) + " tries");
    CompleteIfDone(about.group);
  }
}

void ReplayLoop::TakeTaught(Time now) {
  if (!options_.teacher) return;
  for (auto& [about, status, answer, lease] :
       teacher_questions_.TakeAnswers<v1::TeacherAnswer>(kTaughtAtOnce)) {
    Member* member = FindMember(about.group, about.member);
    if (member == nullptr) {  // its group left over an answer before this one
      if (status.ok()) (void)bus_.Ack(lease);
      continue;
    }
    member->asked_teacher.clear();
    if (status.ok()) {
      const bool several = options_.hints == TeacherHints::kJudgeStrongest;
      status = CheckTaught(answer, member->trajectory, several ? kReasonsMax : 1);
      if (!status.ok()) {
        ++counters_.refused;
        (void)bus_.Reject(lease, status.message());
      }
    }
    if (!status.ok()) {
      ask_teacher_.Put(now, about);
      continue;
    }
    // Scores are not stored: a resumed run asks for them again.
    (void)bus_.Ack(lease);
    OnTaught(about, *member, std::move(answer));
  }
}

void ReplayLoop::OnTaught(const Asked& about, Member& member, v1::TeacherAnswer answer) {
  if (!NeedsTeacher(member)) return;  // stale meanwhile
  if (!answer.available()) {
    MarkStale(member, "not scored by the teacher: " + answer.cause());
  } else {
    member.taught = true;
    member.teacher = Strongest(answer, member.trajectory);
  }
  CompleteIfDone(about.group);
}

}  // namespace tidemill
