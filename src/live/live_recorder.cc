#include "live/live_recorder.h"

#include <utility>

#include "core/log.h"

namespace tidemill {
namespace {

constexpr auto kSweepEvery = std::chrono::seconds(1);

}  // namespace

LiveRecorder::LiveRecorder(const LiveOptions& options, const PromptBuilder& builder,
                           StorePort& store, const Clock& clock, const SessionsState& sessions)
    : builder_(builder), store_(store), clock_(clock), table_(options, sessions.next_number) {
  for (const StoredSession& session : sessions.sessions) {
    const Status restored = table_.Restore(session);
    if (!restored.ok()) {
      LogWarn("a stored session is damaged and goes on without the rest",
              {{"cause", restored.message()}});
    }
  }
  Count();
}

Result<TurnPrompt> LiveRecorder::PrepareUnstored(const TurnQuestion& question) const {
  TurnPrompt prompt;
  if (question.request.api == Api::kCompletions) {
    TM_ASSIGN_OR_RETURN(prompt.prompts, builder_.Encode(question.request));
    return prompt;
  }
  TM_ASSIGN_OR_RETURN(BuiltPrompt built, builder_.Build(question.request, question.request.messages,
                                                        {}, question.wall_ms));
  prompt.prompts.push_back(std::move(built.ids));
  prompt.thinking_open = built.thinking_open;
  return prompt;
}

Result<TurnPrompt> LiveRecorder::Prepare(const TurnQuestion& question) {
  const bool unstored = question.tenant.consent == Consent::kNone;
  if (unstored || question.request.api == Api::kCountTokens) return PrepareUnstored(question);
  LivePlan plan;
  {
    MutexLock lock(mutex_);
    TM_ASSIGN_OR_RETURN(plan, table_.Open(question));
  }
  TurnPrompt prompt;
  Status failure;
  if (question.request.api == Api::kCompletions) {
    auto encoded = builder_.Encode(question.request);
    if (encoded.ok()) prompt.prompts = std::move(*encoded);
    failure = encoded.status();
  } else {
    auto built = builder_.Build(question.request, plan.messages, plan.answers, plan.started_ms);
    if (built.ok()) {
      prompt.thinking_open = built->thinking_open;
      prompt.prompts.push_back(std::move(built->ids));
    }
    failure = built.status();
  }
  MutexLock lock(mutex_);
  if (!failure.ok()) {
    table_.Forget(plan.ticket);
    return failure;
  }
  table_.Begin(plan.ticket, prompt.prompts);
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
  MutexLock lock(mutex_);
  Submit(table_.Finish(turn, /*cut=*/false, builder_, clock_.WallMs()), std::move(stored));
}

void LiveRecorder::Abandoned(RecordedTurn turn, const Status&) {
  if (turn.ticket == 0) return;
  MutexLock lock(mutex_);
  Submit(table_.Finish(turn, /*cut=*/true, builder_, clock_.WallMs()), nullptr);
}

Status LiveRecorder::Close(uint64_t session, const std::string& reason) {
  MutexLock lock(mutex_);
  TM_ASSIGN_OR_RETURN(LiveStores stores, table_.Close(session, reason, clock_.WallMs()));
  Submit(std::move(stores), nullptr);
  return Ok();
}

Time LiveRecorder::Step(Time now) {
  std::vector<std::pair<std::function<void(Status)>, Status>> told;
  {
    MutexLock lock(mutex_);
    for (StoreDone& done : store_.events().TakeAll()) {
      const auto it = waiting_.find(done.tag);
      TM_CHECK(it != waiting_.end(), "the store answered what was not asked");
      Waiting waiting = std::move(it->second);
      waiting_.erase(it);
      if (waiting.turn != 0) {
        Submit(table_.Stored(waiting.session, waiting.turn, done.status, clock_.WallMs()), nullptr);
        if (waiting.stored) told.emplace_back(std::move(waiting.stored), std::move(done.status));
      } else if (!done.status.ok() && waiting.session != 0) {
        const bool again = done.status.code() == Code::kUnavailable;
        LogWarn("the close of a session could not be stored",
                {{"session", waiting.session}, {"again", again}, {"cause", done.status.message()}});
        if (!again) continue;
        const uint64_t tag = next_tag_++;
        StoreOp op = waiting.again;
        waiting_[tag] = std::move(waiting);
        store_.Submit(std::move(op), tag);
      }
    }
    if (now >= next_sweep_) {
      next_sweep_ = now + kSweepEvery;
      Submit(table_.CloseIdle(clock_.WallMs()), nullptr);
    }
    Count();
  }
  for (auto& [stored, status] : told) stored(std::move(status));
  return next_sweep_;
}

bool LiveRecorder::Drained() const {
  MutexLock lock(mutex_);
  return waiting_.empty();
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
  counters_.trained = tokens("trained");
  counters_.consent = tokens(untrained::kConsent);
  counters_.side = tokens(untrained::kSide);
  counters_.cut = tokens(untrained::kCut);
  counters_.retried = tokens(untrained::kRetried);
  counters_.choice = tokens(untrained::kChoice);
  counters_.sampling = tokens(untrained::kSampling);
  counters_.forced = tokens(untrained::kForced);
}

}  // namespace tidemill
