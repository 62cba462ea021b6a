// The learner loop turns batches into policy versions.
//
//   ask replay for a batch -> train (port) -> version reserved (durable) -> publish -> step
//   recorded -> StepDone
//
// While one step trains, the batch of the next is already asked for, so that the trainer never
// waits for the bus. Publishing and checkpoints are commands to the trainer's port; nothing here
// waits for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "bus/bus.h"
#include "bus/outbox.h"
#include "core/counters.h"
#include "core/journal.h"
#include "core/loop.h"
#include "core/version_events.h"
#include "learner/learner_config.h"
#include "learner/reward_watch.h"
#include "learner/trainer_port.h"
#include "proto/tidemill.pb.h"
#include "store/store_port.h"

namespace tidemill {

class Metrics;

struct LearnerOptions : LearnerConfig {
  std::string worker = "local";
  uint64_t max_steps = 1000;
  uint32_t batch_episodes = 64;   // B, of tasks
  uint32_t live_episodes = 0;     // trajectories of sessions, besides
  bool prefetch = true;           // ask for the next batch while this one trains
  std::string checkpoint_folder;  // empty: no checkpoints
  uint64_t steps_done = 0;        // when resumed
  // Sessions are answered from a released version: a step on them waits while that is further
  // behind than this. 0: they are answered from the newest.
  uint64_t behind_max = 0;
  uint64_t version = 1;            // the one published last
  Metrics* metrics = nullptr;      // may be null; must outlive the loop
  VersionListeners listeners;      // must outlive the loop
  ReleasePort* release = nullptr;  // where sessions are answered from a released version
};

// Read from any thread.
struct LearnerCounters : CounterSet {
  Counter steps{*this,
                {.key = "steps",
                 .metric = "tidemill_steps_total",
                 .help = "Learner steps, including those before a resume",
                 .kind = Counter::Kind::kRunTotal}};
  Counter version{*this,
                  {.key = "version",
                   .metric = "tidemill_policy_version",
                   .help = "Newest version of the weights",
                   .kind = Counter::Kind::kLevel}};
  Counter tokens{*this,
                 {.key = "trained_tokens",
                  .metric = "tidemill_trained_tokens_total",
                  .help = "Tokens trained on"}};
  Counter checkpoints{*this,
                      {.key = "checkpoints",
                       .metric = "tidemill_checkpoints_total",
                       .help = "Checkpoints written"}};
  Counter waiting_for_batch{*this,
                            {.key = "learner_waiting",
                             .metric = "tidemill_learner_waiting",
                             .help = "1 while the learner waits for a batch",
                             .kind = Counter::Kind::kLevel}};
  std::atomic<bool> done{false};  // the last step is published and its checkpoint written
};

class LearnerLoop final : public Loop {
 public:
  LearnerLoop(Bus& bus, StorePort& store, TrainerPort& trainer, Journal& journal,
              LearnerOptions options);

  std::string_view name() const override { return "learner"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  bool Drained() const override { return outbox_.waiting() == 0 && !training_; }

  // Any thread: finish the step under way, write a checkpoint, take no other.
  void FinishSoon() { finish_soon_ = true; }

  const LearnerCounters& counters() const { return counters_; }

 private:
  void TakeBatches();
  void TakeWishes();
  void TakeTrainerEvents(Time now);
  void OnTrained(const TrainDone& done, Time now);
  void OnPublished(const PublishDone& done);
  void Observe(const char* name, const char* help, double seconds);
  void OnCheckpoint(const CheckpointDone& done);
  void OnSetBack(const SetBackDone& done);
  void BeginSetBack();
  void TakeStored();
  void AskForBatch();
  void TrainNext();
  void PublishIfReserved();
  void TellVersion();
  void Checkpoint();
  void FinishIfLast();
  void WatchReward(const v1::Batch& batch, Numbers& numbers);
  bool LastStepTaken() const { return counters_.steps >= options_.max_steps || finish_soon_; }

  Bus& bus_;
  StorePort& store_;
  TrainerPort& trainer_;
  Journal& journal_;
  LearnerOptions options_;
  std::string inbox_;
  Outbox outbox_;
  std::optional<v1::Batch> next_batch_;  // came while another trains
  std::optional<v1::Batch> training_;
  std::optional<uint64_t> asked_step_;  // a batch is owed for this step
  std::optional<uint64_t> reserved_;    // version that may be published next
  std::deque<PutStep> to_publish_;      // steps trained, waiting for a reserved version
  uint64_t next_tag_ = 1;
  uint64_t reserve_tag_ = 0;
  uint64_t version_step_ = 0;  // the step the newest version belongs to
  std::deque<std::pair<uint64_t, uint64_t>>
      publishing_;  // version and step the trainer has not confirmed
  Time trained_at_ = Time::min();
  RewardWatch reward_watch_;
  uint64_t checkpointing_ = 0;  // checkpoints that are not written yet
  bool last_told_ = false;
  uint64_t checkpointed_step_ = 0;
  std::atomic<bool> finish_soon_{false};
  uint64_t released_step_;     // sessions are answered from weights of this step
  uint64_t set_back_to_ = 0;   // a version; 0: nobody wants it
  uint64_t setting_back_ = 0;  // to this version; no step begins meanwhile
  uint64_t set_back_tag_ = 0;
  LearnerCounters counters_;
};

}  // namespace tidemill
