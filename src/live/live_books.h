// Shared by the recorder of sessions and its loop: the sessions, what was said of them, and what
// waits for the database.
//
//   recorder (any thread), loop --lock--> SessionTable, LiveSignals -> SessionStore, signals'
//   store, bus (samples, cases, siblings)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bus/outbox.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "live/live_counters.h"
#include "live/live_signals.h"
#include "live/next_state.h"
#include "live/session_store.h"
#include "live/session_table.h"

namespace tidemill {

// How sessions use memory.
struct LiveMemory {
  // Cases of the tenant that fit the prompt, the most useful first. Called by the gateway's
  // workers, several at a time; takes milliseconds at most. Empty: sessions are shown none, and
  // none of them becomes a case.
  std::function<std::vector<v1::ShownCase>(const std::string& tenant, const std::string& prompt)>
      look{};
  size_t case_tokens = 512;  // of a prompt, at most
};

// For learning from sessions, besides.
struct LiveLearning {
  SignalOptions signals{};
  NextStateOptions next_state{};
  LiveMemory memory{};
  Bus* bus = nullptr;  // where samples for replay go; null: nothing is trained here
};

// Calls to make once the lock is free.
using LiveTold = std::vector<std::pair<std::function<void(Status)>, Status>>;

// Thread-safe where the lock is held. What it is given must outlive it.
class LiveBooks {
 public:
  // `sessions`: what an earlier process left. `signals_go`: where signals and verdicts go, null:
  // nothing is said of these sessions.
  LiveBooks(const LiveOptions& options, SessionStore& sessions_go, StorePort* signals_go,
            const Clock& time, const SessionsState& sessions, const LiveState& state,
            const LiveLearning& learning);

  mutable Mutex mutex;

  // To the database. `stored` hears when the turn among them is durable.
  void Submit(LiveStores stores, std::function<void(Status)> stored) TM_REQUIRES(mutex);
  void Put(v1::Signal signal, std::function<void(Status)> stored) TM_REQUIRES(mutex);
  // The consequences of a change are stored and sent.
  void Teach(LiveLessons lessons) TM_REQUIRES(mutex);
  // Nothing of it is learned from here on, whether it waits here, on the bus or in replay.
  void Unteach(uint64_t session) TM_REQUIRES(mutex);
  // The database's answer.
  void TakeStored(LiveTold& told) TM_REQUIRES(mutex);
  // Brings the levels of the counters up to date.
  void Count() TM_REQUIRES(mutex);

  const Clock& clock;
  LiveCounters counters;
  const std::function<std::vector<v1::ShownCase>(const std::string&, const std::string&)> look;
  Bus* const bus;  // null: nothing is trained here
  SessionStore& store;
  StorePort* const signal_store;  // null: as above
  SessionTable table TM_GUARDED_BY(mutex);
  LiveSignals signals TM_GUARDED_BY(mutex);
  std::optional<Outbox> outbox TM_GUARDED_BY(mutex);
  std::optional<NextStateJudges> judges TM_GUARDED_BY(mutex);

  // Whether everything was stored.
  bool Settled() const TM_REQUIRES(mutex) { return waiting_.empty(); }

 private:
  struct Waiting {
    std::optional<SessionOp> again{};  // of a session's close, which is tried until it is durable
    uint64_t session = 0;
    uint32_t turn = 0;  // 0: of a session
    std::function<void(Status)> stored{};
    std::optional<v1::Signal> signal{};
  };
  void OnStored(Waiting waiting, Status status, LiveTold& told) TM_REQUIRES(mutex);
  void OnClosed(Waiting waiting, const Status& status) TM_REQUIRES(mutex);
  void TellMemory(const std::vector<ScoredTurn>& turns) TM_REQUIRES(mutex);

  std::map<uint64_t, Waiting> waiting_ TM_GUARDED_BY(mutex);  // by tag
  uint64_t next_tag_ TM_GUARDED_BY(mutex) = 1;
};

}  // namespace tidemill
