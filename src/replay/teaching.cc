#include "replay/teaching.h"

#include <string>
#include <utility>
#include <vector>

#include "core/topics.h"
#include "replay/teacher_request.h"

namespace tidemill {
namespace {

constexpr size_t kTaughtAtOnce = 256;

}  // namespace

void Teaching::Attach(Waker& waker) {
  if (parts_.options.teacher) questions_.Attach(waker);
}

bool Teaching::Awaits(const ReplayMember& member) const {
  return parts_.options.teacher && !member.taught && !member.excluded &&
         member.trajectory.purpose() == v1::PURPOSE_TRAIN;
}

void Teaching::AskAbout(const MemberOf& about, Time now) {
  ReplayMember& member = parts_.book.at(about.group).members.at(about.member);
  const v1::TrajectoryId& id = member.trajectory.id();
  v1::TeacherRequest request =
      MakeTeacherRequest(member, parts_.tasks.Find(id.task()), parts_.options);
  if (request.sequences_size() == 0) {  // there is nothing to ask about
    member.taught = true;
    return parts_.book.CompleteIfDone(about.group);
  }
  ++member.teacher_tries;
  member.asked_teacher = std::to_string(about.group) + "." + std::to_string(about.member) + "." +
                         std::to_string(id.attempt()) + ".t" +
                         std::to_string(member.teacher_tries) + "@" + parts_.options.worker;
  request.set_request_id(member.asked_teacher);
  questions_.Ask(kTeacherTopic, std::move(request), about, now);
}

void Teaching::Ask(Time now) {
  if (!parts_.options.teacher || draining_) return;
  std::vector<MemberOf> due = later_.TakeDue(now);
  for (const auto& [id, about] : questions_.TakeLost(now)) due.push_back(about);
  for (const MemberOf& about : due) {
    ReplayMember* member = parts_.book.Find(about);
    if (member == nullptr || !Awaits(*member)) continue;  // gone or stale meanwhile
    member->asked_teacher.clear();
    if (member->teacher_tries < parts_.options.score_tries) {
      AskAbout(about, now);
      continue;
    }
    const std::string tries = "no answer after " + std::to_string(member->teacher_tries) + " tries";
    parts_.book.MarkStale(*member, Failure::kTeacher, tries);
    parts_.book.CompleteIfDone(about.group);
  }
}

void Teaching::TakeAnswers(Time now) {
  if (!parts_.options.teacher) return;
  for (auto& [about, status, answer, lease] :
       questions_.TakeAnswers<v1::TeacherAnswer>(kTaughtAtOnce)) {
    ReplayMember* member = parts_.book.Find(about);
    if (member == nullptr) {  // its group left over an answer before this one
      if (status.ok()) (void)parts_.bus.Ack(lease);
      continue;
    }
    member->asked_teacher.clear();
    if (status.ok()) {
      status = CheckTaught(answer, member->trajectory, parts_.options);
      if (!status.ok()) {
        ++parts_.counters.refused;
        (void)parts_.bus.Reject(lease, status.message());
      }
    }
    if (!status.ok()) {
      later_.Put(now, about);
      continue;
    }
    (void)parts_.bus.Ack(lease);
    OnAnswer(about, *member, answer);
  }
}

void Teaching::OnAnswer(const MemberOf& about, ReplayMember& member,
                        const v1::TeacherAnswer& answer) {
  if (!Awaits(member)) return;  // stale meanwhile
  if (answer.available()) {
    member.taught = true;
    member.teacher = Strongest(answer, member.trajectory);
  } else {
    parts_.book.MarkStale(member, Failure::kTeacher, answer.cause());
  }
  parts_.book.CompleteIfDone(about.group);
}

}  // namespace tidemill
