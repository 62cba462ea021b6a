// Bounds how much experience may be under way, and with it how old it can get: at most (η + v +
// 1)·B episodes are ever running or accepted, v the learner's steps and B the episodes of a step.
// Where an episode is used S times on average, a step uses up B / S episodes: then at most
// (η + 1)·B + v·B / S, so that the next batch is always there and no more pile up behind it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tidemill {

struct GateOptions {
  int64_t max_in_flight = 256;      // episodes running at once
  int64_t batch_episodes = 64;      // B
  int64_t staleness_max_steps = 1;  // η; 0 is synchronous training
  int64_t uses_per_episode = 1;     // S
};

// Counts episodes, and of those that were accepted the uses they pay for. Belongs to the
// dispatcher.
class AdmissionGate {
 public:
  explicit AdmissionGate(const GateOptions& options) : options_(options) {}

  // Episodes that may still be issued now; never negative.
  int64_t Room() const {
    const int64_t uses = options_.uses_per_episode;
    const int64_t allowed = (options_.staleness_max_steps + 1) * options_.batch_episodes * uses +
                            steps_ * options_.batch_episodes;
    const int64_t by_age = (allowed - accepted_uses_) / uses - running_;
    return std::max<int64_t>(0, std::min(Flight(), by_age));
  }
  // The same without regard to age: for what the learner waits for.
  int64_t Flight() const { return std::max<int64_t>(0, options_.max_in_flight - running_); }

  void Issued(int64_t episodes) { running_ += episodes; }
  // The episodes stopped running and count towards a batch.
  void Accepted(int64_t episodes) {
    running_ -= episodes, accepted_uses_ += episodes * options_.uses_per_episode;
  }
  // The episodes stopped running and never will count: their credit returns.
  void Dropped(int64_t episodes) { running_ -= episodes; }
  // Accepted episodes left (too old, evicted) after `uses` uses: what is left of their credit
  // returns.
  void Withdrawn(int64_t episodes, int64_t uses) {
    accepted_uses_ -= episodes * std::max<int64_t>(0, options_.uses_per_episode - uses);
  }
  void StepsDone(int64_t steps) { steps_ = std::max(steps_, steps); }
  // A run is resumed: its steps took whole batches, and these accepted episodes are still there.
  void Resume(int64_t steps) { steps_ = steps, accepted_uses_ = steps * options_.batch_episodes; }
  void ResumeAccepted(int64_t episodes, int64_t uses) {
    accepted_uses_ += episodes * std::max<int64_t>(0, options_.uses_per_episode - uses);
  }

  int64_t running() const { return running_; }
  int64_t accepted() const { return accepted_uses_ / options_.uses_per_episode; }
  int64_t steps() const { return steps_; }

 private:
  GateOptions options_;
  int64_t running_ = 0;
  int64_t accepted_uses_ = 0;
  int64_t steps_ = 0;
};

}  // namespace tidemill
