// The release book of a run that trains and serves in one process: hears of versions, steps and
// evaluations, has the engine hold what is on offer, keeps its state in the run's database, tells
// the learner what it may forget and pins the gateway's requests to what is on offer.
//
//   VersionEvent -> Take -> ReleaseBook -> EnginePort::Hold, PutRelease, ReleaseWish -> learner
//   request -> ReleasedRecorder::Prepare -> VersionFor -> pin
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/clock.h"
#include "core/counters.h"
#include "core/loop.h"
#include "core/mutex.h"
#include "core/version_events.h"
#include "engine/engine_port.h"
#include "gateway/passing_recorder.h"
#include "live/live_watch.h"
#include "live/release_book.h"
#include "store/store_port.h"

namespace tidemill {

struct ReleaseCounters : CounterSet {
  Counter released{*this,
                   {.key = "live_released_version",
                    .metric = "tidemill_live_released_version",
                    .help = "Version that clients are answered from",
                    .kind = Counter::Kind::kLevel}};
  Counter candidate{*this,
                    {.key = "live_candidate_version",
                     .metric = "tidemill_live_candidate_version",
                     .help = "Version that is being tried; 0: none",
                     .kind = Counter::Kind::kLevel}};
  Counter gate_failures{*this,
                        {.key = "live_gate_failures",
                         .metric = "tidemill_live_gate_failures",
                         .help = "Candidates that failed the gate in a row",
                         .kind = Counter::Kind::kLevel}};
};

struct ReleaseStart {
  ReleaseOptions options{};
  uint64_t version = 1;  // the run begins with, released
  uint64_t step = 0;
  uint64_t every_steps = 1;    // steps whose number this divides are evaluated
  std::string file{};          // where people read its state; empty: nowhere
  v1::ReleaseState earlier{};  // as an earlier process left it
};

// Thread-safe; decides on the thread of its loop. What is given by reference must outlive it.
class ReleaseDesk final : public ReleasePort, public LiveWatch, public Loop {
 public:
  // `store` is the desk's own client.
  ReleaseDesk(const ReleaseStart& start, EnginePort& engine, StorePort& store, const Clock& clock);

  void Take(const VersionEvent& event) override { arrived_.Post(event); }
  Mailbox<ReleaseWish>& wishes() override { return wishes_; }

  std::string_view name() const override { return "release"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;

  // Writes the file.
  void Tick() override;

  uint64_t VersionFor(uint64_t session, const std::string& request_id);
  void Answered(const RecordedTurn& turn);
  // Failures as ReleaseBook::Rollback; ok: it is done by one of the next Ticks.
  Status Rollback(std::optional<uint64_t> to);

  // {"released": {..}, "candidate": .., "previous": .., "alarms": [..], "events": [..]}
  std::string Json() const;
  const ReleaseCounters& counters() const { return counters_; }

 private:
  struct Waiting {
    uint64_t number = 0;
    Time until{};
    uint64_t version = 0;  // of a hold: whose weights
    Time again{};          // and when it is asked for once more
  };
  void Carry(const ReleaseOrders& orders) TM_REQUIRES(mutex_);
  void Hear(const VersionEvent& event) TM_REQUIRES(mutex_);
  // The changes since the last time: to the database and the learner.
  void Keep() TM_REQUIRES(mutex_);
  void CheckHolds(Time now) TM_REQUIRES(mutex_);
  std::string JsonLocked() const TM_REQUIRES(mutex_);

  const ReleaseStart start_;
  EnginePort& engine_;
  StorePort& store_;
  const Clock& clock_;
  ReleaseCounters counters_;
  Mailbox<VersionEvent> arrived_;
  Mailbox<ReleaseWish> wishes_;
  std::string written_;  // of the thread that ticks

  mutable Mutex mutex_;
  ReleaseBook book_ TM_GUARDED_BY(mutex_);
  std::deque<Waiting> holds_ TM_GUARDED_BY(mutex_);         // not yet seen on the engine
  std::optional<uint64_t> set_back_ TM_GUARDED_BY(mutex_);  // not yet asked of the learner
  std::deque<Waiting> unholds_ TM_GUARDED_BY(mutex_);       // when requests under way are done
  std::string kept_ TM_GUARDED_BY(mutex_);                  // the state that was stored last
  std::string wished_ TM_GUARDED_BY(mutex_);                // and the wish that was told
};

// Pins what it prepares to the version on offer; a request that names one keeps that, and an
// agent's episode is not pinned.
class ReleasedRecorder final : public PassingRecorder {
 public:
  // `desk` must outlive it.
  ReleasedRecorder(std::unique_ptr<TurnRecorder> next, ReleaseDesk& desk)
      : PassingRecorder(std::move(next)), desk_(desk) {}

  Result<TurnPrompt> Prepare(const TurnQuestion& question) override;
  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override;

 private:
  ReleaseDesk& desk_;
};

// {} or {"to": N}; kInvalid says what is wrong.
Result<std::optional<uint64_t>> ParseRollback(const std::string& json);

}  // namespace tidemill
