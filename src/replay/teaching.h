// Scores of a teacher: log-probabilities of what the model wrote. Nothing waits for them: an
// episode whose scores are late is in a later batch, where it may be too old. They are not stored:
// a resumed run asks for them again.
#pragma once

#include "bus/questions.h"
#include "replay/scoring.h"

namespace tidemill {

// Belongs to one loop; not thread-safe.
class Teaching final : public MemberWork {
 public:
  explicit Teaching(const ReplayParts& parts)
      : parts_(parts), questions_(parts.bus, parts.outbox, ReplayQuestions("taught", parts)) {}

  void Attach(Waker& waker);
  // Nothing new is asked for.
  void Drain() { draining_ = true; }

  void AskAbout(const MemberOf& about, Time now);
  void AskLater(const MemberOf& about) { later_.Put(Time::min(), about); }
  // Asks for what is due: what was stored before a resume, and what was lost.
  void Ask(Time now);
  void TakeAnswers(Time now);
  size_t open() const { return questions_.open(); }

  // Whether the member is used with a teacher's scores and has none.
  bool Awaits(const ReplayMember& member) const override;
  void Forget(uint64_t, const ReplayMember& member) override {
    questions_.Forget(member.asked_teacher);
  }

 private:
  void OnAnswer(const MemberOf& about, ReplayMember& member, const v1::TeacherAnswer& answer);

  const ReplayParts parts_;
  Questions<MemberOf> questions_;
  LaterQueue<MemberOf> later_;
  bool draining_ = false;
};

}  // namespace tidemill
