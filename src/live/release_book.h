// Which of the published versions clients are answered from.
//
//   published -> candidate -> gate (held-out evaluation) -> canary (a share of new sessions)
//   -> released;   a failed gate, an alarm or an operator -> the released version stays
//
// Publication is the learner's business; release is what users see. No I/O, no clock, no threads:
// what the engine and the store have to do comes out as orders. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "core/version_events.h"
#include "live/live_config.h"
#include "proto/session.pb.h"

namespace tidemill {

// Alarms are off where they are 0, or 1 for shares; so is gate_failures of 0.
struct ReleaseOptions : LiveConfig {
  size_t places = 3;  // versions the engine holds; one is the newest, one the released
  // The learner is set back as well when it has no candidate and is further ahead of the released
  // version than this, where it waits; 0: it does not wait.
  uint64_t behind_max = 0;
};

// What follows from a change.
struct ReleaseOrders {
  struct Hold {
    uint64_t version = 0;
    uint64_t as = 0;
  };
  std::vector<Hold> hold{};
  std::vector<uint64_t> unhold{};
  bool reserve = false;  // a new number is wanted: Reserved
  // The learner is to go on from the weights published as this version: SetBack or NotSetBack.
  std::optional<uint64_t> set_back{};
};

class ReleaseBook {
 public:
  enum class Stage { kGate, kCanary };
  struct Candidate {
    uint64_t version = 0;
    uint64_t step = 0;
    Stage stage = Stage::kGate;
    int64_t since_ms = 0;  // of the stage
    std::optional<double> pass_rate{};
    uint64_t first_session = 0;  // of the canary: older ones stay where they are
  };
  struct Release {
    uint64_t version = 0;
    uint64_t step = 0;
    uint64_t weights = 0;  // the version they were published as
    std::optional<double> pass_rate{};
  };
  struct Event {
    int64_t at_ms = 0;
    std::string what{};
    uint64_t version = 0;
    std::string why{};
  };

  // The run begins with this version released. `earlier`: the State of an earlier process.
  ReleaseBook(const ReleaseOptions& options, uint64_t version, uint64_t step, int64_t now_ms,
              const v1::ReleaseState& earlier = {});
  // To be carried out first.
  ReleaseOrders Begin() const;

  // A step was published; of those that will be evaluated also a candidate.
  void Stepped(uint64_t step) { newest_step_ = step; }
  // A version that will be evaluated was published.
  ReleaseOrders Published(uint64_t version, uint64_t step, int64_t now_ms);
  // The engine could not keep what it was to hold.
  ReleaseOrders Refused(uint64_t version, const std::string& why, int64_t now_ms);
  // `pass_rate` is nothing where not one sample could be scored: that says nothing of the version.
  ReleaseOrders Evaluated(uint64_t step, std::optional<double> pass_rate, int64_t now_ms);
  ReleaseOrders Trained(const StepTrained& step, int64_t now_ms);
  struct Answer {
    uint64_t version = 0;
    bool malformed = false;
    bool question = false;
  };
  ReleaseOrders Answered(const Answer& answer, int64_t now_ms);
  ReleaseOrders Tick(int64_t now_ms);

  // During a canary: the candidate goes. Else the weights of the release before, or of `to`, are
  // released again under a new number. kNotFound: they are not held any more.
  Result<ReleaseOrders> Rollback(std::optional<uint64_t> to, int64_t now_ms);
  // The number that was wanted; and that the engine holds the weights under it.
  ReleaseOrders Reserved(uint64_t number, int64_t now_ms);
  ReleaseOrders Held(uint64_t number, int64_t now_ms);

  // The learner goes on from the released weights, published as `number` after `step` steps: that
  // is what is released now.
  ReleaseOrders SetBack(uint64_t number, uint64_t step, int64_t now_ms);
  void NotSetBack(const std::string& why, int64_t now_ms);
  // Versions whose weights the learner may be set back to.
  std::vector<uint64_t> Wanted() const;

  // What the session is answered from: the same until what is on offer changes. `fresh`: there is
  // no session, the number was drawn for one request.
  uint64_t VersionFor(uint64_t session, bool fresh);

  // What a process that goes on with the run has to know.
  v1::ReleaseState State() const;

  const Release& released() const { return released_; }
  const std::optional<Release>& previous() const { return previous_; }
  const std::optional<Candidate>& candidate() const { return candidate_; }
  uint32_t gate_failures() const { return gate_failures_; }           // in a row
  const std::deque<Event>& events() const { return events_; }         // the newest last
  const std::vector<std::string>& alarms() const { return alarms_; }  // that are on now

 private:
  struct Rates {
    uint64_t answers = 0;
    uint64_t malformed = 0;
    uint64_t questions = 0;
  };
  void Note(int64_t now_ms, const std::string& what, uint64_t version, const std::string& why);
  void Drop(const std::string& what, const std::string& why, int64_t now_ms, ReleaseOrders& orders);
  void ReleaseCandidate(const std::string& why, int64_t now_ms, ReleaseOrders& orders);
  void Succeed(const Release& next, ReleaseOrders& orders);
  ReleaseOrders Alarm(const std::string& why, int64_t now_ms);
  void AskSetBack(const std::string& why, int64_t now_ms, ReleaseOrders& orders);

  const ReleaseOptions options_;
  Release released_;
  std::optional<Release> previous_;  // held while there is room
  std::optional<Candidate> candidate_;
  std::optional<Release> returning_;  // a rollback under way; version 0: it has no number yet
  std::string returning_why_;
  bool setting_back_ = false;
  bool cannot_set_back_ = false;  // until something else is released
  uint64_t newest_step_ = 0;
  std::map<uint64_t, Rates> rates_;  // of versions on offer
  uint64_t newest_session_ = 0;
  uint32_t gate_failures_ = 0;
  std::vector<std::string> alarms_;
  std::deque<Event> events_;
};

}  // namespace tidemill
