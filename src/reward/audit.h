// Whether scorers that do not execute are right: a random share of what they decide is executed as
// well, and a sequential test watches the wrong answers among those they accepted.
//
//   claim (accept, reject), executed verdict -> confusion matrix, CUSUM -> alarm
//
// After an alarm the scorer is not trusted: its version rises, so that replay has its recent
// verdicts scored again, and execution decides until a person lists it in audit.trust.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/counters.h"
#include "proto/tidemill.pb.h"
#include "reward/reward_config.h"

namespace tidemill {

// Counts up by `gain` with every wrong answer and down by 1 with every right one, never below 0: a
// likelihood-ratio CUSUM of two Bernoulli rates in whole numbers, so that its false-alarm
// probability can be computed exactly.
class WrongAccepts {
 public:
  struct Rates {
    double tolerated = 0.01;     // share of wrong answers that is no reason for an alarm
    double alarm_at = 0.1;       // share that must be found soon
    double false_alarms = 0.01;  // probability of an alarm in kHorizon answers at `tolerated`
  };
  static constexpr uint32_t kHorizon = 5000;

  explicit WrongAccepts(const Rates& rates);
  // True: alarm.
  bool Add(bool wrong);

  uint32_t gain() const { return gain_; }
  uint32_t threshold() const { return threshold_; }
  uint32_t level() const { return level_; }

 private:
  uint32_t gain_;
  uint32_t threshold_;
  uint32_t level_ = 0;
};

// The probability that a count with this gain reaches the threshold within `answers`, each wrong
// with probability `rate`; exact.
double AlarmProbability(uint32_t gain, uint32_t threshold, double rate, uint32_t answers);

// Read from any thread. Of one scorer.
struct AuditCounters : CounterSet {
  explicit AuditCounters(const std::string& scorer);
  Counter accept_pass, accept_fail, reject_pass, reject_fail;
  Counter alarms;
  Counter distrusted;  // 1: execution decides
  Counter level;       // of the sequential test, in percent of its threshold
  Counter bound;       // precision that is tolerated, in millionths
};

// Of one scorer; belongs to one loop.
class Audit {
 public:
  Audit(std::string scorer, const AuditConfig& config, uint64_t seed);

  // Whether this episode is executed too; the same whenever it is asked.
  bool Draws(const v1::TrajectoryId& id) const;
  // True: an alarm, just now.
  bool Add(bool accepted, bool passed);
  // Versions above the scorer's own that were seen: another worker's alarm, or one before a resume.
  void LearnRise(uint32_t rise);

  bool trusted() const { return rise_ <= trusted_rise_; }
  uint32_t rise() const { return rise_; }  // to be added to the scorer's version
  double share() const { return config_.share; }
  // For people: "12 of 80 accepted answers were wrong".
  std::string Text() const;
  const std::string& scorer() const { return scorer_; }
  const AuditCounters& counters() const { return *counters_; }

 private:
  const std::string scorer_;
  const AuditConfig config_;
  const uint64_t seed_;
  const bool trusts_again_;
  std::optional<WrongAccepts> watch_;  // made with the first accept: finding its threshold takes ms
  uint32_t rise_ = 0, trusted_rise_ = 0;
  bool learned_ = false;
  std::unique_ptr<AuditCounters> counters_;
};

}  // namespace tidemill
