// Bounds how much experience may be under way, and with it how old it can get: at most (η + v +
// 1)·B episodes are ever running or accepted, v the learner's steps and B the episodes of a step.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tidemill {

struct GateOptions {
  int64_t max_in_flight = 256;      // episodes running at once
  int64_t batch_episodes = 64;      // B
  int64_t staleness_max_steps = 1;  // η; 0 is synchronous training
};

// Counts episodes. Belongs to the dispatcher.
class AdmissionGate {
 public:
  explicit AdmissionGate(const GateOptions& options) : options_(options) {}

  // Episodes that may still be issued now; never negative.
  int64_t Room() const {
    const int64_t by_flight = options_.max_in_flight - running_;
    const int64_t by_age = (options_.staleness_max_steps + steps_ + 1) * options_.batch_episodes -
                           (accepted_ + running_);
    return std::max<int64_t>(0, std::min(by_flight, by_age));
  }

  void Issued(int64_t episodes) { running_ += episodes; }
  // The episodes stopped running and count towards a batch.
  void Accepted(int64_t episodes) { running_ -= episodes, accepted_ += episodes; }
  // The episodes stopped running and never will count: their credit returns.
  void Dropped(int64_t episodes) { running_ -= episodes; }
  // Accepted episodes turned out too old for a batch: their credit returns.
  void Withdrawn(int64_t episodes) { accepted_ -= episodes; }
  void StepsDone(int64_t steps) { steps_ = std::max(steps_, steps); }

  int64_t running() const { return running_; }
  int64_t accepted() const { return accepted_; }
  int64_t steps() const { return steps_; }

 private:
  GateOptions options_;
  int64_t running_ = 0;
  int64_t accepted_ = 0;
  int64_t steps_ = 0;
};

}  // namespace tidemill
