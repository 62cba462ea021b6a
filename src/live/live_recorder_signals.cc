// The signals of a recorder: what clients post, and what judges say of what came next.
#include <set>
#include <utility>

#include "gateway/wire_json.h"
#include "live/live_recorder.h"

namespace tidemill {
namespace {

std::string FeedbackAnswer(const v1::Signal& signal) {
  WireJson body = {{"object", "feedback"},
                   {"session", "s" + std::to_string(signal.session())},
                   {"score", signal.score()},
                   {"source", signal.source()},
                   {"revision", signal.revision()}};
  if (signal.turn() != 0) body["turn"] = signal.turn();
  return DumpWire(body);
}

}  // namespace

Result<v1::Signal> LiveRecorder::SignalOf(const Feedback& feedback, const FeedbackPost& post) {
  const std::string& tenant = post.tenant.name;
  const SessionTable::Place place =
      feedback.request_id.empty() ? table_.FindNamed(tenant, feedback.session)
                                  : table_.FindAnswer(tenant, feedback.request_id, feedback.choice);
  const Session* session = table_.Find(place.session);
  if (session == nullptr || session->turns().empty()) {
    return NotFound(feedback.request_id.empty()
                        ? "no session \"" + feedback.session + "\" of this key is known"
                        : "no answer " + feedback.request_id + " to this key is known");
  }
  v1::Signal signal;
  signal.set_session(place.session);
  signal.set_turn(place.turn);
  signal.set_span_from(feedback.span_from);
  signal.set_span_to(feedback.span_to);
  signal.set_source(feedback.source);
  signal.set_by(redaction_ ? redaction_->CleanName(feedback.by) : feedback.by);
  signal.set_score(feedback.score);
  std::string remark = feedback.text;
  SecretSet secrets;
  if (redaction_) (void)redaction_->Clean(remark, secrets);
  signal.set_text(remark);
  signal.set_at_ms(post.wall_ms);
  signal.set_revision(signals_.NextRevision(signal));
  return signal;
}

void LiveRecorder::TakeFeedback(const FeedbackPost& post,
                                std::function<void(Result<std::string>)> answered) {
  const auto feedback = ParseFeedback(post.body, post.session);
  if (!feedback.ok()) return answered(feedback.status());
  Status failure;
  {
    MutexLock lock(mutex_);
    auto signal = SignalOf(*feedback, post);
    failure = signal.status();
    if (signal.ok()) {
      PutSignalOf(*signal, [answered, body = FeedbackAnswer(*signal)](const Status& status) {
        status.ok() ? answered(body) : answered(status);
      });
      if (feedback->end) {
        auto stores = table_.Close(signal->session(), "ended by feedback", clock_.WallMs());
        if (stores.ok()) Submit(std::move(*stores), nullptr);
      }
    }
  }
  if (!failure.ok()) answered(failure);
}

void LiveRecorder::PutSignalOf(v1::Signal signal, std::function<void(Status)> stored) {
  const uint64_t tag = next_tag_++;
  Waiting& waiting = waiting_[tag];
  waiting.signal = signal;
  waiting.stored = std::move(stored);
  store_.Submit(PutSignal{std::move(signal)}, tag);
}

void LiveRecorder::TakeJudged(Time now) {
  for (v1::Signal& signal : judges_->Take(now, clock_.WallMs())) {
    signal.set_revision(signals_.NextRevision(signal));
    PutSignalOf(std::move(signal), nullptr);
  }
}

void LiveRecorder::AskAgain() {
  table_.ForEach([this](const Session& session) TM_REQUIRES(mutex_) {
    std::set<uint32_t> judged;
    for (const v1::Signal& signal : signals_.SignalsOf(session.record().number())) {
      if (signal.source() == "judge") judged.insert(signal.turn());
    }
    for (const auto& [number, turn] : session.turns()) {
      if (!judged.contains(turn.record.context_turn())) judges_->Ask(session, number, clock_.Now());
    }
  });
}

}  // namespace tidemill
