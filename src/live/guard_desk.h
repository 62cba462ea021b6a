// Alarms of a run that serves, and the file in which people see them and the quarantine.
//
//   StepTrained -> entropy, KL;   answers -> shares of malformed calls and of questions
//   -> alarms -> RUN/guards.json, metrics
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/counters.h"
#include "core/mutex.h"
#include "core/version_events.h"
#include "gateway/passing_recorder.h"
#include "live/live_config.h"
#include "live/live_watch.h"

namespace tidemill {

struct GuardCounters : CounterSet {
  Counter alarms{*this,
                 {.key = "live_alarms",
                  .metric = "tidemill_live_alarms",
                  .help = "Alarms that are on",
                  .kind = Counter::Kind::kLevel}};
};

// The properties of an answer that the alarms count.
bool HasMalformedCall(const WireJson& message);
bool EndsWithQuestion(const WireJson& message);

// Thread-safe. The clock must outlive it.
class GuardDesk final : public VersionListener, public LiveWatch {
 public:
  static constexpr size_t kAnswers = 200;    // the newest, that shares are taken of
  static constexpr size_t kAnswersMin = 20;  // fewer say nothing about a share

  // `file`: where its state is written; empty: nowhere.
  GuardDesk(const LiveConfig& options, std::string file, const Clock& clock)
      : options_(options), file_(std::move(file)), clock_(clock) {}

  // Where the state of the quarantine comes from, as JSON. Before the first Tick.
  void ShowQuarantine(std::function<std::string()> json) { quarantine_ = std::move(json); }

  void Take(const VersionEvent& event) override;
  void Tick() override;
  void Answered(const RecordedTurn& turn);

  // {"alarms": [{"name", "why", "since_ms"}], "quarantine": Quarantine::Json}
  std::string Json() const;
  const GuardCounters& counters() const { return counters_; }

 private:
  struct Alarm {
    std::string why;
    int64_t since_ms = 0;
  };
  struct Seen {
    bool malformed = false;
    bool question = false;
  };
  // An empty reason: it is off.
  void Set(const std::string& name, const std::string& why) TM_REQUIRES(mutex_);

  const LiveConfig options_;
  const std::string file_;
  const Clock& clock_;
  GuardCounters counters_;
  std::function<std::string()> quarantine_;  // may be empty
  std::string written_;                      // of the thread that ticks

  mutable Mutex mutex_;
  std::deque<Seen> answers_ TM_GUARDED_BY(mutex_);
  std::map<std::string, Alarm> alarms_ TM_GUARDED_BY(mutex_);
};

// Tells the desk of every answer. The desk must outlive it.
class WatchedRecorder final : public PassingRecorder {
 public:
  WatchedRecorder(std::unique_ptr<TurnRecorder> next, GuardDesk& desk)
      : PassingRecorder(std::move(next)), desk_(desk) {}

  void Finished(RecordedTurn turn, std::function<void(Status)> stored) override {
    desk_.Answered(turn);
    next().Finished(std::move(turn), std::move(stored));
  }

 private:
  GuardDesk& desk_;
};

}  // namespace tidemill
