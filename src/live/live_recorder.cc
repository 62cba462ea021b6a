#include "live/live_recorder.h"

#include <algorithm>
#include <utility>

#include "core/topics.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

// Of a prompt, in which a secret may begin that the answer ends.
constexpr size_t kPromptEnd = 256;

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

LiveRecorder::LiveRecorder(const LiveOptions& options, const PromptBuilder& builder,
                           StorePort& store, const Clock& clock, const SessionsState& sessions,
                           const LiveState& state, const LiveLearning& learning)
    : redaction_(options.redaction),
      builder_(builder),
      case_tokens_(learning.memory.case_tokens),
      run_store_(std::make_unique<RunSessionStore>(store)),
      books_(options, *run_store_, &store, clock, sessions, state, learning),
      loop_(books_) {}

LiveRecorder::LiveRecorder(const LiveOptions& options, const PromptBuilder& builder,
                           SessionStore& store, const Clock& clock)
    : redaction_(options.redaction),
      builder_(builder),
      case_tokens_(0),
      books_(options, store, nullptr, clock, {}, {}, {}),
      loop_(books_) {}

Result<TurnPrompt> LiveRecorder::PrepareUnstored(const TurnQuestion& question) const {
  if (!question.request.prompts.empty()) {
    return builder_.Encode(question.request, question.prompt_tokens_max);
  }
  TM_ASSIGN_OR_RETURN(BuiltPrompt built,
                      builder_.Build(question.request, question.request.messages, {},
                                     question.wall_ms, question.prompt_tokens_max));
  TurnPrompt prompt;
  prompt.prompts.push_back(std::move(built.ids));
  prompt.tokens_more = built.more;
  prompt.thinking_open = built.thinking_open;
  return prompt;
}

CleanMessages LiveRecorder::CleanOf(const TurnQuestion& question) const {
  CleanMessages clean{.messages = question.request.messages};
  if (!redaction_) return clean;
  (void)redaction_->Clean(clean.messages, clean.secrets);
  WireJson tools = question.request.tools;  // not stored as they are, but a part of the prompt
  (void)redaction_->Clean(tools, clean.secrets);
  return clean;
}

std::vector<CleanPrompt> LiveRecorder::CleanOf(const std::vector<std::vector<TokenId>>& prompts,
                                               const SecretSet& secrets) const {
  std::vector<CleanPrompt> clean;
  for (const std::vector<TokenId>& ids : prompts) {
    CleanPrompt& one = clean.emplace_back(CleanPrompt{.ids = ids});
    if (!redaction_) continue;
    const size_t end = std::min(ids.size(), kPromptEnd);
    one.end.assign(ids.end() - static_cast<long>(end), ids.end());
    one.redacted = static_cast<uint32_t>(redaction_->Tokens(
        one.ids, 0, secrets, [this](TokenId id) { return builder_.BytesOf(id); }));
  }
  return clean;
}

// Looked up without the lock: whether a session begins here is known only with it, but other
// requests must not wait for a search.
CasesNote LiveRecorder::CasesFor(const TurnQuestion& question, const WireJson& messages) const {
  if (!books_.look || question.tenant.consent != Consent::kTrain) return {};
  if (HasRawPrompts(question.request.api)) return {};
  const std::string asked = FirstQuestion(messages);
  if (asked.empty()) return {};
  return NoteOf(books_.look(question.tenant.name, asked), case_tokens_,
                [this](const std::string& text) { return builder_.CountTokens(text); });
}

Result<TurnPrompt> LiveRecorder::Prepare(const TurnQuestion& question) {
  const bool unstored = question.tenant.consent == Consent::kNone;
  if (unstored || !DrawsAnswer(question.request.api)) return PrepareUnstored(question);
  CleanMessages clean = CleanOf(question);
  const SecretSet secrets = clean.secrets;
  const CasesNote note = CasesFor(question, clean.messages);
  LivePlan plan;
  {
    MutexLock lock(books_.mutex);
    TM_ASSIGN_OR_RETURN(plan, books_.table.Open(question, std::move(clean), note));
  }
  TurnPrompt prompt;
  Status failure;
  if (HasRawPrompts(question.request.api)) {
    auto encoded = builder_.Encode(question.request, question.prompt_tokens_max);
    failure = encoded.status();
    if (encoded.ok()) prompt = std::move(*encoded);
  } else {
    auto built = builder_.Build(question.request, WithCases(std::move(plan.messages), plan.cases),
                                plan.answers, plan.started_ms, question.prompt_tokens_max);
    if (built.ok()) {
      prompt.thinking_open = built->thinking_open;
      prompt.tokens_more = built->more;
      prompt.prompts.push_back(std::move(built->ids));
    }
    failure = built.status();
  }
  std::vector<CleanPrompt> stored = CleanOf(prompt.prompts, secrets);
  MutexLock lock(books_.mutex);
  if (!failure.ok()) {
    books_.table.Forget(plan.ticket);
    return failure;
  }
  books_.table.Begin(plan.ticket, std::move(stored));
  prompt.session = plan.session;
  prompt.session_name = plan.session_name;
  prompt.ticket = plan.ticket;
  books_.Count();
  return prompt;
}

void LiveRecorder::Finished(RecordedTurn turn, std::function<void(Status)> stored) {
  if (turn.ticket == 0) return stored(Ok());
  std::string tenant;
  {
    MutexLock lock(books_.mutex);
    LiveStores stores = books_.table.Finish(turn, /*cut=*/false, builder_, books_.clock.WallMs());
    if (stores.turn != 0) return books_.Submit(std::move(stores), std::move(stored));
    tenant = stores.erased_tenant;
  }
  if (forget_pages_) forget_pages_(tenant);  // its session was deleted
  stored(Ok());
}

void LiveRecorder::Abandoned(RecordedTurn turn, TurnLoss, const Status&) {
  if (turn.ticket == 0) return;
  std::string tenant;
  {
    MutexLock lock(books_.mutex);
    LiveStores stores = books_.table.Finish(turn, /*cut=*/true, builder_, books_.clock.WallMs());
    tenant = stores.erased_tenant;
    books_.Submit(std::move(stores), nullptr);
  }
  if (!tenant.empty() && forget_pages_) forget_pages_(tenant);
}

Status LiveRecorder::Close(uint64_t session, const std::string& reason) {
  MutexLock lock(books_.mutex);
  TM_ASSIGN_OR_RETURN(LiveStores stores,
                      books_.table.Close(session, reason, books_.clock.WallMs()));
  books_.Submit(std::move(stores), nullptr);
  return Ok();
}

std::vector<uint64_t> LiveRecorder::Erase(const EraseWhat& what) {
  MutexLock lock(books_.mutex);
  const std::vector<uint64_t> numbers = books_.table.Erase([&](const v1::Session& session) {
    return what.session ? session.number() == *what.session : session.tenant() == what.tenant;
  });
  for (const uint64_t number : numbers) books_.Unteach(number);
  return numbers;
}

void LiveRecorder::Forget(const std::vector<uint64_t>& sessions) {
  MutexLock lock(books_.mutex);
  for (const uint64_t session : sessions) books_.Unteach(session);
}

bool LiveRecorder::Untaught() const {
  if (books_.bus == nullptr) return true;
  {
    MutexLock lock(books_.mutex);
    if (books_.outbox->waiting() > 0) return false;
  }
  const auto depth = books_.bus->Depth(kLiveEventsTopic);
  return depth.ok() && depth->ready + depth->leased == 0;
}

std::string LiveRecorder::QuarantineJson() const {
  MutexLock lock(books_.mutex);
  return books_.signals.quarantine().Json();
}

Status LiveRecorder::Decide(const std::string& tenant, bool train) {
  MutexLock lock(books_.mutex);
  TM_ASSIGN_OR_RETURN(LiveLessons lessons, books_.signals.Decide(tenant, train));
  books_.Teach(std::move(lessons));
  books_.Count();
  return Ok();
}

Result<v1::Signal> LiveRecorder::SignalOf(const Feedback& feedback, const FeedbackPost& post) {
  const std::string& tenant = post.tenant.name;
  const SessionTable::Place place =
      feedback.request_id.empty()
          ? books_.table.FindNamed(tenant, feedback.session)
          : books_.table.FindAnswer(tenant, feedback.request_id, feedback.choice);
  const Session* session = books_.table.Find(place.session);
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
  signal.set_revision(books_.signals.NextRevision(signal));
  return signal;
}

void LiveRecorder::TakeFeedback(const FeedbackPost& post,
                                std::function<void(Result<std::string>)> answered) {
  const auto feedback = ParseFeedback(post.body, post.session);
  if (!feedback.ok()) return answered(feedback.status());
  if (books_.signal_store == nullptr) return answered(NotFound("these sessions take no feedback"));
  Status failure;
  {
    MutexLock lock(books_.mutex);
    auto signal = SignalOf(*feedback, post);
    failure = signal.status();
    if (signal.ok()) {
      books_.Put(*signal, [answered, body = FeedbackAnswer(*signal)](const Status& status) {
        status.ok() ? answered(body) : answered(status);
      });
      if (feedback->end) {
        auto stores =
            books_.table.Close(signal->session(), "ended by feedback", books_.clock.WallMs());
        if (stores.ok()) books_.Submit(std::move(*stores), nullptr);
      }
    }
  }
  if (!failure.ok()) answered(failure);
}

double LiveRecorder::BaselineVariance() const {
  MutexLock lock(books_.mutex);
  return books_.signals.baseline().Variance();
}

}  // namespace tidemill
