#include "live/live_books.h"

#include <utility>

#include "core/log.h"
#include "core/topics.h"

namespace tidemill {

LiveBooks::LiveBooks(const LiveOptions& options, SessionStore& sessions_go, StorePort* signals_go,
                     const Clock& time, const SessionsState& sessions, const LiveState& state,
                     const LiveLearning& learning)
    : clock(time),
      look(learning.memory.look),
      bus(learning.bus),
      store(sessions_go),
      signal_store(signals_go),
      table(options, sessions.next_number, counters),
      signals(learning.signals, counters) {
  MutexLock lock(mutex);
  if (bus != nullptr) outbox.emplace(*bus);
  for (const StoredSession& session : sessions.sessions) {
    const Status restored = table.Restore(session);
    if (!restored.ok()) {
      LogWarn("a stored session is damaged and goes on without the rest",
              {{"cause", restored.message()}});
    }
  }
  Teach(signals.Restore(state));
  if (bus != nullptr && !learning.next_state.judges.empty())
    judges.emplace(*bus, *outbox, learning.next_state, counters);
  Count();
}

void LiveBooks::Submit(LiveStores stores, std::function<void(Status)> stored) {
  for (SessionOp& op : stores.ops) {
    const uint64_t tag = next_tag_++;
    Waiting& waiting = waiting_[tag];
    if (std::holds_alternative<PutSessionTurn>(op)) {
      waiting.session = stores.session;
      waiting.turn = stores.turn;
      waiting.stored = std::move(stored);
    } else if (const v1::Session& session = std::get<PutSession>(op).session;
               session.closed_ms() != 0) {
      waiting.session = session.number();
      waiting.again = op;
    }
    store.Submit(std::move(op), tag);
  }
}

void LiveBooks::Put(v1::Signal signal, std::function<void(Status)> stored) {
  TM_CHECK(signal_store != nullptr, "nothing is said of these sessions");
  const uint64_t tag = next_tag_++;
  Waiting& waiting = waiting_[tag];
  waiting.signal = signal;
  waiting.stored = std::move(stored);
  signal_store->Submit(PutSignal{std::move(signal)}, tag);
}

void LiveBooks::Unteach(uint64_t session) {
  signals.Forget(session);
  if (judges) judges->Forget(session);
  if (!outbox) return;
  v1::LiveEvent event;
  event.mutable_deleted()->set_session(session);
  outbox->Publish(kLiveEventsTopic, event.SerializeAsString());
}

// Verdicts are stored, samples go to replay. Both follow from what is durable: a process that dies
// here makes them again.
void LiveBooks::Teach(LiveLessons lessons) {
  for (v1::Verdict& verdict : lessons.verdicts) {
    const uint64_t tag = next_tag_++;
    waiting_[tag];
    signal_store->Submit(PutVerdict{std::move(verdict)}, tag);
  }
  if (!outbox) return;
  TellMemory(lessons.scored);
  for (const v1::LiveEvent& event : lessons.events) {
    outbox->Publish(kLiveEventsTopic, event.SerializeAsString());
  }
  for (const v1::SiblingsWanted& wanted : lessons.wanted) {
    outbox->Publish(kSiblingsWantedTopic, wanted.SerializeAsString());
  }
}

// As the samples: a process that dies before the case is stored tells it again.
void LiveBooks::TellMemory(const std::vector<ScoredTurn>& turns) {
  if (!look) return;
  for (const ScoredTurn& scored : turns) {
    const Session* session = table.Find(scored.session);
    if (session == nullptr) continue;
    const auto record = SessionCase(*session, scored.turn, scored.score);
    if (record) outbox->Publish(kMemoryCasesTopic, record->SerializeAsString());
  }
}

void LiveBooks::OnClosed(Waiting waiting, const Status& status) {
  if (status.ok()) {
    PutSession& put = std::get<PutSession>(*waiting.again);
    return Teach(signals.Settled(put.session, std::move(put.trajectories)));
  }
  const bool again = status.code() == Code::kUnavailable;
  LogWarn("the close of a session could not be stored",
          {{"session", waiting.session}, {"again", again}, {"cause", status.message()}});
  if (!again) return;
  const uint64_t tag = next_tag_++;
  SessionOp op = *waiting.again;
  waiting_[tag] = std::move(waiting);
  store.Submit(std::move(op), tag);
}

void LiveBooks::OnStored(Waiting waiting, Status status, LiveTold& told) {
  if (waiting.turn != 0) {
    Submit(table.Stored(waiting.session, waiting.turn, status, clock.WallMs()), nullptr);
    const Session* session = table.Find(waiting.session);
    if (judges && status.ok() && session != nullptr)
      judges->Ask(*session, waiting.turn, clock.Now());
    if (table.Erased(waiting.session)) status = Ok();  // it is not to be stored
  } else if (waiting.signal) {
    const bool erased = table.Erased(waiting.signal->session());
    if (status.ok() && !erased) Teach(signals.Put(*waiting.signal));
  } else if (waiting.again) {
    if (!table.Erased(waiting.session)) OnClosed(std::move(waiting), status);
    return;
  }
  if (waiting.stored) told.emplace_back(std::move(waiting.stored), std::move(status));
}

void LiveBooks::TakeStored(LiveTold& told) {
  for (StoreDone& done : store.events().TakeAll()) {
    auto waiting = waiting_.extract(done.tag);
    TM_CHECK(!waiting.empty(), "the store answered what was not asked");
    OnStored(std::move(waiting.mapped()), std::move(done.status), told);
  }
}

void LiveBooks::Count() {
  counters.open = table.open();
  counters.judging = judges ? judges->open() : 0;
  counters.unsignalled = signals.unsignalled();
  counters.uncompared = signals.uncompared();
  counters.awaiting = signals.awaiting();
  counters.quarantined = signals.quarantine().sessions();
  counters.quarantined_tenants = signals.quarantine().tenants();
  counters.unsent = outbox ? outbox->waiting() : 0;
}

}  // namespace tidemill
