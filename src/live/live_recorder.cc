#include "live/live_recorder.h"

#include <algorithm>
#include <utility>

#include "bus/read_message.h"
#include "core/log.h"
#include "core/topics.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr auto kSweepEvery = std::chrono::seconds(1);
// Of a prompt, in which a secret may begin that the answer ends.
constexpr size_t kPromptEnd = 256;
constexpr size_t kSiblingsAtOnce = 64;
constexpr auto kFlushEvery = std::chrono::milliseconds(5);

}  // namespace

LiveRecorder::LiveRecorder(const LiveOptions& options, const PromptBuilder& builder,
                           StorePort& store, const Clock& clock, const SessionsState& sessions,
                           const LiveState& state, const LiveLearning& learning)
    : redaction_(options.redaction),
      builder_(builder),
      store_(store),
      clock_(clock),
      memory_(learning.memory),
      bus_(learning.bus),
      table_(options, sessions.next_number),
      signals_(learning.signals) {
  if (bus_ != nullptr) outbox_.emplace(*bus_);
  for (const StoredSession& session : sessions.sessions) {
    const Status restored = table_.Restore(session);
    if (!restored.ok()) {
      LogWarn("a stored session is damaged and goes on without the rest",
              {{"cause", restored.message()}});
    }
  }
  MutexLock lock(mutex_);
  Teach(signals_.Restore(state));
  if (bus_ != nullptr && !learning.next_state.judges.empty()) {
    judges_.emplace(*bus_, *outbox_, learning.next_state);
    AskAgain();
  }
  Count();
}

Result<TurnPrompt> LiveRecorder::PrepareUnstored(const TurnQuestion& question) const {
  if (question.request.api == Api::kCompletions) {
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
  if (!memory_.look || question.tenant.consent != Consent::kTrain) return {};
  if (question.request.api == Api::kCompletions) return {};
  const std::string asked = FirstQuestion(messages);
  if (asked.empty()) return {};
  return NoteOf(memory_.look(question.tenant.name, asked), memory_.case_tokens,
                [this](const std::string& text) { return builder_.CountTokens(text); });
}

Result<TurnPrompt> LiveRecorder::Prepare(const TurnQuestion& question) {
  const bool unstored = question.tenant.consent == Consent::kNone;
  if (unstored || question.request.api == Api::kCountTokens) return PrepareUnstored(question);
  CleanMessages clean = CleanOf(question);
  const SecretSet secrets = clean.secrets;
  const CasesNote note = CasesFor(question, clean.messages);
  LivePlan plan;
  {
    MutexLock lock(mutex_);
    TM_ASSIGN_OR_RETURN(plan, table_.Open(question, std::move(clean), note));
  }
  TurnPrompt prompt;
  Status failure;
  if (question.request.api == Api::kCompletions) {
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
  MutexLock lock(mutex_);
  if (!failure.ok()) {
    table_.Forget(plan.ticket);
    return failure;
  }
  table_.Begin(plan.ticket, std::move(stored));
  prompt.session = plan.session;
  prompt.session_name = plan.session_name;
  prompt.ticket = plan.ticket;
  Count();
  return prompt;
}

void LiveRecorder::Submit(LiveStores stores, std::function<void(Status)> stored) {
  for (StoreOp& op : stores.ops) {
    const uint64_t tag = next_tag_++;
    Waiting& waiting = waiting_[tag];
    if (std::holds_alternative<PutSessionTurn>(op)) {
      waiting.session = stores.session;
      waiting.turn = stores.turn;
      waiting.stored = std::move(stored);
    } else if (std::get<PutSession>(op).session.closed_ms() != 0) {
      waiting.again = op;
      waiting.session = std::get<PutSession>(op).session.number();
    }
    store_.Submit(std::move(op), tag);
  }
}

void LiveRecorder::Finished(RecordedTurn turn, std::function<void(Status)> stored) {
  if (turn.ticket == 0) return stored(Ok());
  std::string tenant;
  {
    MutexLock lock(mutex_);
    LiveStores stores = table_.Finish(turn, /*cut=*/false, builder_, clock_.WallMs());
    if (stores.turn != 0) return Submit(std::move(stores), std::move(stored));
    tenant = stores.erased_tenant;
  }
  if (forget_pages_) forget_pages_(tenant);  // its session was deleted
  stored(Ok());
}

void LiveRecorder::Abandoned(RecordedTurn turn, TurnLoss, const Status&) {
  if (turn.ticket == 0) return;
  std::string tenant;
  {
    MutexLock lock(mutex_);
    LiveStores stores = table_.Finish(turn, /*cut=*/true, builder_, clock_.WallMs());
    tenant = stores.erased_tenant;
    Submit(std::move(stores), nullptr);
  }
  if (!tenant.empty() && forget_pages_) forget_pages_(tenant);
}

Status LiveRecorder::Close(uint64_t session, const std::string& reason) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(LiveStores stores, table_.Close(session, reason, clock_.WallMs()));
  Submit(std::move(stores), nullptr);
  return Ok();
}

std::vector<uint64_t> LiveRecorder::Erase(const EraseWhat& what) {
  MutexLock lock(mutex_);
  const std::vector<uint64_t> numbers = table_.Erase([&](const v1::Session& session) {
    return what.session ? session.number() == *what.session : session.tenant() == what.tenant;
  });
  for (const uint64_t number : numbers) Unteach(number);
  return numbers;
}

void LiveRecorder::Forget(const std::vector<uint64_t>& sessions) {
  MutexLock lock(mutex_);
  for (const uint64_t session : sessions) Unteach(session);
}

// Nothing of it is learned from here on, whether it waits here, on the bus or in replay.
void LiveRecorder::Unteach(uint64_t session) {
  signals_.Forget(session);
  if (judges_) judges_->Forget(session);
  if (!outbox_) return;
  v1::LiveEvent event;
  event.mutable_deleted()->set_session(session);
  outbox_->Publish(kLiveEventsTopic, event.SerializeAsString());
}

bool LiveRecorder::Untaught() const {
  if (bus_ == nullptr) return true;
  {
    MutexLock lock(mutex_);
    if (outbox_->waiting() > 0) return false;
  }
  const auto depth = bus_->Depth(kLiveEventsTopic);
  return depth.ok() && depth->ready + depth->leased == 0;
}

// Verdicts are stored, samples go to replay. Both follow from what is durable: a process that dies
// here makes them again.
void LiveRecorder::Teach(LiveLessons lessons) {
  for (v1::Verdict& verdict : lessons.verdicts) {
    const uint64_t tag = next_tag_++;
    waiting_[tag];
    store_.Submit(PutVerdict{std::move(verdict)}, tag);
  }
  if (!outbox_) return;
  TellMemory(lessons.scored);
  for (const v1::LiveEvent& event : lessons.events) {
    outbox_->Publish(kLiveEventsTopic, event.SerializeAsString());
  }
  for (const v1::SiblingsWanted& wanted : lessons.wanted) {
    outbox_->Publish(kSiblingsWantedTopic, wanted.SerializeAsString());
  }
}

// As the samples: a process that dies before the case is stored tells it again.
void LiveRecorder::TellMemory(const std::vector<ScoredTurn>& turns) {
  if (!memory_.look) return;
  for (const ScoredTurn& scored : turns) {
    const Session* session = table_.Find(scored.session);
    if (session == nullptr) continue;
    const auto record = SessionCase(*session, scored.turn, scored.score);
    if (record) outbox_->Publish(kMemoryCasesTopic, record->SerializeAsString());
  }
}

void LiveRecorder::TakeSiblings() {
  if (bus_ == nullptr) return;
  for (Lease& lease : TakeFrom(*bus_, kSiblingsTopic, kSiblingsAtOnce)) {
    v1::SiblingsDone done;
    if (!ReadOrReject(*bus_, lease, done, {})) continue;
    Teach(signals_.Siblings(done));
    (void)bus_->Ack(lease);
  }
}

void LiveRecorder::CloseStored(Waiting waiting, const Status& status) {
  if (status.ok()) {
    PutSession& put = std::get<PutSession>(waiting.again);
    Teach(signals_.Settled(put.session, std::move(put.trajectories)));
    return;
  }
  const bool again = status.code() == Code::kUnavailable;
  LogWarn("the close of a session could not be stored",
          {{"session", waiting.session}, {"again", again}, {"cause", status.message()}});
  if (!again) return;
  const uint64_t tag = next_tag_++;
  StoreOp op = waiting.again;
  waiting_[tag] = std::move(waiting);
  store_.Submit(std::move(op), tag);
}

void LiveRecorder::TakeStored(Told& told) {
  for (StoreDone& done : store_.events().TakeAll()) {
    const auto it = waiting_.find(done.tag);
    TM_CHECK(it != waiting_.end(), "the store answered what was not asked");
    Waiting waiting = std::move(it->second);
    waiting_.erase(it);
    if (waiting.turn != 0) {
      Submit(table_.Stored(waiting.session, waiting.turn, done.status, clock_.WallMs()), nullptr);
      const Session* session = table_.Find(waiting.session);
      if (judges_ && done.status.ok() && session != nullptr)
        judges_->Ask(*session, waiting.turn, clock_.Now());
      if (table_.Erased(waiting.session)) done.status = Ok();  // it is not to be stored
    } else if (waiting.signal) {
      const bool erased = table_.Erased(waiting.signal->session());
      if (done.status.ok() && !erased) Teach(signals_.Put(*waiting.signal));
    } else if (waiting.session != 0) {
      if (!table_.Erased(waiting.session)) CloseStored(std::move(waiting), done.status);
      continue;
    }
    if (waiting.stored) told.emplace_back(std::move(waiting.stored), std::move(done.status));
  }
}

std::string LiveRecorder::QuarantineJson() const {
  MutexLock lock(mutex_);
  return signals_.quarantine().Json();
}

Status LiveRecorder::Decide(const std::string& tenant, bool train) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(LiveLessons lessons, signals_.Decide(tenant, train));
  Teach(std::move(lessons));
  Count();
  return Ok();
}

void LiveRecorder::Attach(Waker& waker) {
  store_.events().Attach(waker);
  if (bus_ != nullptr) bus_->Subscribe(kSiblingsTopic, waker);
  MutexLock lock(mutex_);
  if (judges_) judges_->Attach(waker);
}

Time LiveRecorder::Step(Time now) {
  Told told;
  Time wake = next_sweep_;
  {
    MutexLock lock(mutex_);
    TakeStored(told);
    TakeSiblings();
    if (judges_) TakeJudged(now);
    if (now >= next_sweep_) {
      next_sweep_ = now + kSweepEvery;
      Submit(table_.CloseIdle(clock_.WallMs()), nullptr);
    }
    wake = next_sweep_;
    if (judges_) wake = std::min(wake, judges_->next());
    if (outbox_) {
      outbox_->Flush(now);
      if (outbox_->waiting() > 0) wake = std::min(wake, now + kFlushEvery);
    }
    Count();
  }
  for (auto& [stored, status] : told) stored(std::move(status));
  return wake;
}

bool LiveRecorder::Drained() const {
  MutexLock lock(mutex_);
  return waiting_.empty();
}

double LiveRecorder::BaselineVariance() const {
  MutexLock lock(mutex_);
  return signals_.baseline().Variance();
}

void LiveRecorder::Count() {
  const LiveTotals& totals = table_.totals();
  counters_.open = table_.open();
  counters_.sessions = totals.sessions;
  counters_.closed = totals.closed;
  counters_.questions = totals.questions;
  counters_.retries = totals.retries;
  counters_.turns = totals.turns;
  counters_.branches = totals.branches;
  counters_.rewritten = totals.rewritten;
  counters_.sampled = totals.sampled;
  auto tokens = [&](const char* why) {
    const auto it = totals.tokens.find(why);
    return it == totals.tokens.end() ? 0 : it->second;
  };
  counters_.signals = signals_.signals();
  counters_.revised = signals_.revised();
  counters_.asked = judges_ ? judges_->asked() : 0;
  counters_.unanswered = judges_ ? judges_->lost() : 0;
  counters_.judging = judges_ ? judges_->open() : 0;
  counters_.unsignalled = signals_.unsignalled();
  counters_.uncompared = signals_.uncompared();
  counters_.awaiting = signals_.awaiting();
  counters_.quarantined = signals_.quarantine().sessions();
  counters_.quarantined_tenants = signals_.quarantine().tenants();
  counters_.with_cases = totals.with_cases;
  counters_.unsent = outbox_ ? outbox_->waiting() : 0;
  counters_.trained = tokens("trained");
  counters_.consent = tokens(untrained::kConsent);
  counters_.secret = tokens(untrained::kSecret);
  counters_.side = tokens(untrained::kSide);
  counters_.cut = tokens(untrained::kCut);
  counters_.retried = tokens(untrained::kRetried);
  counters_.choice = tokens(untrained::kChoice);
  counters_.sampling = tokens(untrained::kSampling);
  counters_.forced = tokens(untrained::kForced);
}

}  // namespace tidemill
