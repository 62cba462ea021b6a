#include "replay/scoring.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/topics.h"
#include "replay/score_request.h"

namespace tidemill {
namespace {

constexpr size_t kVerdictsAtOnce = 256;

// The first failure of a scorer is told at once; after that only when their number has doubled.
void TellUnscored(const v1::Verdict& verdict, uint64_t count, Journal& journal) {
  if ((count & (count - 1)) != 0) return;
  const std::string many =
      count == 1 ? "an episode" : std::to_string(count) + " episodes so far, the newest";
  journal.Record("warning", {{"unscored", static_cast<double>(count)}},
                 {{"what", "could not score " + many + " of task " + verdict.id().task() + ": " +
                               verdict.cause()}});
}

}  // namespace

QuestionOptions ReplayQuestions(const char* inbox, const ReplayParts& parts) {
  const ReplayOptions& options = parts.options;
  QuestionOptions questions;
  questions.inbox = InboxTopic(options.worker, inbox);
  questions.most = options.max_score_outstanding;
  questions.patience = options.score_patience;
  questions.secret = options.secret;
  questions.limits = options.limits;
  questions.refused = &parts.counters.refused;
  return questions;
}

Scoring::Scoring(const ReplayParts& parts)
    : parts_(parts),
      questions_(parts.bus, parts.outbox, ReplayQuestions("replay", parts)),
      rescoring_(parts.book, parts.tasks, parts.options) {}

bool Scoring::AwaitsMembers(const ReplayGroup& group) const {
  return parts_.options.compared_with > 0 && group.members.size() < group.size;
}

void Scoring::Forget(uint64_t group, const ReplayMember& member) {
  questions_.Forget(member.asked);
  rescoring_.Forget(group);
}

void Scoring::AskAbout(const MemberOf& about, Time now) {
  ReplayGroup& group = parts_.book.at(about.group);
  ReplayMember& member = group.members.at(about.member);
  const v1::Task* task = parts_.tasks.Find(member.trajectory.id().task());
  if (task == nullptr) {
    parts_.book.MarkStale(member, Failure::kUnknownTask);
    return parts_.book.CompleteIfDone(about.group);
  }
  ++member.score_tries;
  member.asked = std::to_string(about.group) + "." + std::to_string(about.member) + "." +
                 std::to_string(member.trajectory.id().attempt()) + ".s" +
                 std::to_string(member.score_tries) + "@" + parts_.options.worker;
  v1::ScoreRequest request =
      MakeScoreRequest(*task, group, about.member, rescoring_.highest(), parts_.options);
  request.set_request_id(member.asked);
  questions_.Ask(kScoreTopic, std::move(request), about, now);
}

void Scoring::OnMember(const MemberOf& about, Time now) {
  const ReplayGroup* group = parts_.book.Find(about.group);
  if (draining_ || group == nullptr || AwaitsMembers(*group)) return;
  std::vector<uint32_t> open;
  for (const auto& [index, member] : group->members) {
    const bool meant = parts_.options.compared_with > 0 || index == about.member;
    if (meant && !member.excluded && !member.verdict && member.asked.empty()) open.push_back(index);
  }
  for (const uint32_t index : open) {
    const MemberOf each{about.group, index};
    if (parts_.book.Find(each) != nullptr) AskAbout(each, now);
  }
}

void Scoring::TakeVerdicts(Time now) {
  for (auto& [about, status, verdict, lease] :
       questions_.TakeAnswers<v1::Verdict>(kVerdictsAtOnce)) {
    ReplayMember* member = parts_.book.Find(about);
    if (member == nullptr) {  // its group left over an answer before this one
      if (status.ok()) (void)parts_.bus.Ack(lease);
      continue;
    }
    if (status.ok()) {
      status = CheckVerdict(verdict, member->trajectory);
      if (!status.ok()) {
        ++parts_.counters.refused;
        (void)parts_.bus.Reject(lease, status.message());
      }
    }
    if (!status.ok()) {
      AskLater(now, about);
      continue;
    }
    verdict.clear_token();
    if (member->verdict && !Replaces(verdict, *member->verdict)) {
      (void)parts_.bus.Ack(lease);
      ++parts_.counters.rescore_failed;
      member->asked.clear();
      rescoring_.Answered(about.group);
      continue;
    }
    parts_.writer.Put(verdict, std::move(lease), now);
  }
}

bool Scoring::OnStored(const v1::Verdict& verdict) {
  const MemberOf about{verdict.id().group(), verdict.id().member()};
  ReplayMember* member = parts_.book.Find(about);
  if (member == nullptr) return false;
  member->asked.clear();
  rescoring_.Note(verdict);
  ReplayCounters& counters = parts_.counters;
  if (member->verdict) {
    member->verdict = verdict;
    ++counters.rescored;
    rescoring_.Answered(about.group);
    return false;
  }
  if (verdict.scored()) {
    ++counters.scored;
    if (verdict.solved()) ++counters.solved;
    member->verdict = verdict;
  } else {
    ++counters.unscored;
    TellUnscored(verdict, counters.unscored, parts_.journal);
    parts_.book.MarkStale(*member, Failure::kUnscorable, verdict.cause());
  }
  return true;
}

// A resumed run asks for what a draining one left open.
void Scoring::Ask(Time now) {
  if (draining_) return;
  for (const auto& [id, about] : questions_.TakeLost(now)) OnNoVerdict(about, now);
  for (const MemberOf& about : later_.TakeDue(now)) OnNoVerdict(about, now);
  for (const MemberOf& about : rescoring_.TakeDue()) AskAbout(about, now);
}

void Scoring::OnNoVerdict(const MemberOf& about, Time now) {
  ReplayMember* member = parts_.book.Find(about);
  if (member == nullptr) return;  // evicted meanwhile
  member->asked.clear();
  if (member->verdict) {  // the one it has stays
    ++parts_.counters.rescore_failed;
    rescoring_.Answered(about.group);
  } else if (AwaitsMembers(parts_.book.at(about.group))) {
    return;  // asked for with the last of them
  } else if (member->score_tries < parts_.options.score_tries) {
    AskAbout(about, now);
  } else {
    const std::string tries = "after " + std::to_string(member->score_tries) + " tries";
    parts_.book.MarkStale(*member, Failure::kNoVerdict, tries);
    parts_.book.CompleteIfDone(about.group);
  }
}

}  // namespace tidemill
