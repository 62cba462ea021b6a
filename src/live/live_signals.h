// From signals to what is learned: keeps what was said of each session, scores its trajectories
// once it is closed, and gives those with a score and a baseline to training. No I/O, no clock, no
// threads: only what is durable comes in.
//
//   Settled(session, trajectories), Put(signal) -> LiveLessons: verdicts to store, samples to train
//
// Each kind of source is a scorer ("live.program", "live.person", "live.judge") whose version rises
// with what it says; the most trusted kind that spoke decides. A later signal changes the verdict
// in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "live/live_baseline.h"
#include "live/live_counters.h"
#include "live/quarantine.h"
#include "proto/session.pb.h"
#include "proto/tidemill.pb.h"
#include "store/run_db.h"

namespace tidemill {

struct SignalOptions {
  bool train = false;              // samples are wanted; false: only verdicts
  size_t window = 64;              // sessions of a class that a baseline is taken over
  size_t others_min = 4;           // a trajectory waits until so many others have a reward
  size_t max_sessions = 100'000;   // in memory; above it the oldest are forgotten
  size_t max_tokens = 50'000'000;  // of trajectories that wait for a signal
  // Tasks of the run: a session whose class is the name of one is bound to it. Once it has a score
  // it is compared with so many attempts at the task instead of with other sessions; 0: never.
  std::set<std::string> tasks{};
  uint32_t siblings = 0;
  QuarantineOptions quarantine{};
  std::string quarantined{};  // the Json of an earlier process's quarantine
};

// A turn that may be trained, with its score.
struct ScoredTurn {
  uint64_t session = 0;
  uint32_t turn = 0;
  double score = 0;
};

// The consequences of a change.
struct LiveLessons {
  std::vector<v1::Verdict> verdicts{};
  std::vector<ScoredTurn> scored{};     // those whose score is new, for memory
  std::vector<v1::LiveEvent> events{};  // for replay: samples and revisions
  std::vector<v1::SiblingsWanted> wanted{};
};

// The score of a session and of its turns, from its signals alone.
struct SessionScore {
  bool any = false;  // false: nothing was said
  double session = 0;
  std::map<uint32_t, double> turns{};  // those with a score of their own
  std::vector<v1::RewardPart> parts{};
};
SessionScore ScoreSession(const std::vector<v1::Signal>& signals);

// Not thread-safe.
class LiveSignals {
 public:
  // The counters must outlive it.
  LiveSignals(const SignalOptions& options, LiveCounters& counters)
      : options_(options),
        counters_(counters),
        baseline_(options.window),
        quarantine_(options.quarantine, options.quarantined) {}

  // The state an earlier process left.
  LiveLessons Restore(const LiveState& state);
  // The session was closed, and this is what it gave.
  LiveLessons Settled(const v1::Session& session, std::vector<v1::Trajectory> trajectories);
  // The number a new signal gets: one above the last of the same source on the same thing, whether
  // that became durable or not.
  uint32_t NextRevision(const v1::Signal& signal);
  // It is durable.
  LiveLessons Put(const v1::Signal& signal);
  // Rewards of siblings are from 0 to 1. Where none has one, the session is compared with other
  // sessions after all.
  LiveLessons Siblings(const v1::SiblingsDone& done);
  // Nothing of the session is kept, trained on or compared with from here on.
  void Forget(uint64_t session);

  // The tenant's sessions in quarantine are trained on, or never. kNotFound: nothing is.
  Result<LiveLessons> Decide(const std::string& tenant, bool train);
  const Quarantine& quarantine() const { return quarantine_; }

  std::vector<v1::Signal> SignalsOf(uint64_t session) const;
  const LiveBaseline& baseline() const { return baseline_; }
  // Trajectories that wait, for a signal or for others to be compared with.
  size_t unsignalled() const { return unsignalled_; }
  size_t uncompared() const { return uncompared_.size(); }
  // Sessions that wait for siblings.
  size_t awaiting() const { return awaiting_; }

 private:
  using SignalKey = std::tuple<uint32_t, uint32_t, uint32_t, std::string, std::string>;
  struct Part {
    v1::Trajectory trajectory;  // its turns have ids until it was sent
    uint64_t tokens = 0;        // that are kept; 0: it was sent, or used by an earlier process
  };
  struct Entry {
    std::map<SignalKey, v1::Signal> signals;
    std::map<SignalKey, uint32_t> revisions;
    LiveBaseline::Class of;
    std::vector<Part> parts;
    enum class Siblings { kNotAsked, kAsked, kKnown } siblings = Siblings::kNotAsked;
    LiveBaseline::Comparison compared;  // with siblings; others 0: with none
    std::map<uint32_t, double> told;    // scores of turns that memory knows
  };

  static SignalKey KeyOf(const v1::Signal& signal);
  void AddPart(Entry& entry, v1::Trajectory trajectory, bool usable);
  // Verdicts and samples of the session as it is now.
  void Score(uint64_t session, Entry& entry, LiveLessons& lessons);
  void TellScores(uint64_t session, Entry& entry, const SessionScore& score, LiveLessons& lessons);
  // Whether what is to be trained of it waits for siblings.
  bool AskSiblings(uint64_t session, Entry& entry, LiveLessons& lessons);
  LiveBaseline::Comparison Compare(uint64_t session, const Entry& entry) const;
  bool Comparable(uint64_t session, const Entry& entry) const;
  void Send(uint64_t session, Entry& entry, const SessionScore& score, LiveLessons& lessons);
  // Those of the class that had too few others.
  void SendWaiting(const LiveBaseline::Class& of, LiveLessons& lessons);
  void Release(uint64_t session);
  void Bound();

  const SignalOptions options_;
  LiveCounters& counters_;
  LiveBaseline baseline_;
  Quarantine quarantine_;
  std::map<uint64_t, Entry> sessions_;
  std::set<std::pair<LiveBaseline::Class, uint64_t>> uncompared_;
  uint64_t tokens_ = 0;
  size_t unsignalled_ = 0;
  size_t awaiting_ = 0;
};

}  // namespace tidemill
