// Verdicts: asked for when an episode is stored, again when an answer was lost, and once more for
// the groups that an older version of a scorer judged.
#pragma once

#include <cstdint>

#include "bus/questions.h"
#include "core/journal.h"
#include "replay/group_book.h"
#include "replay/rescoring.h"
#include "tasks/task_book.h"

namespace tidemill {

// Shared by the parts of replay; borrowed from the loop, which outlives them.
struct ReplayParts {
  Bus& bus;
  Outbox& outbox;
  ReplayWriter& writer;
  GroupBook& book;
  const TaskBook& tasks;
  Journal& journal;
  const ReplayOptions& options;
  ReplayCounters& counters;
};

// How the answers to questions of replay come in.
QuestionOptions ReplayQuestions(const char* inbox, const ReplayParts& parts);

// Belongs to one loop; not thread-safe.
class Scoring final : public MemberWork {
 public:
  explicit Scoring(const ReplayParts& parts);

  void Attach(Waker& waker) { questions_.Attach(waker); }
  // Nothing new is asked for.
  void Drain() { draining_ = true; }

  // A member was stored: its verdict is asked for, or, where answers are compared, those of its
  // group once it is whole.
  void OnMember(const MemberOf& about, Time now);
  void AskLater(Time at, const MemberOf& about) { later_.Put(at, about); }
  // Answers are given to the writer.
  void TakeVerdicts(Time now);
  // True: it is the first on its member, whose group may be complete now.
  bool OnStored(const v1::Verdict& verdict);
  // Asks for what is due and for rescorings.
  void Ask(Time now);
  size_t open() const { return questions_.open(); }

  bool Awaits(const ReplayMember& member) const override { return !member.verdict; }
  void Buffered(const ReplayGroup& group) override { rescoring_.Buffered(group); }
  void Forget(uint64_t group, const ReplayMember& member) override;
  Rescoring& rescoring() { return rescoring_; }

 private:
  bool AwaitsMembers(const ReplayGroup& group) const;
  void AskAbout(const MemberOf& about, Time now);
  void OnNoVerdict(const MemberOf& about, Time now);

  const ReplayParts parts_;
  Questions<MemberOf> questions_;
  LaterQueue<MemberOf> later_;
  Rescoring rescoring_;
  bool draining_ = false;
};

}  // namespace tidemill
