// The learner loop turns batches into policy versions.
//
//   ask replay for a batch -> train (port), version reserved (durable) -> publish -> step recorded
//   -> StepDone
//
// While one step trains, the batch of the next is already asked for, so that the trainer never
// waits for the bus. Publishing and checkpoints are commands to the trainer's port; nothing here
// waits for them.
//
// Several policies take their steps in turn, one at a time: the next is that of the policy whose
// batch came first. Each has a line of its own: a trainer, steps, versions and checkpoints.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bus/bus.h"
#include "bus/outbox.h"
#include "core/counters.h"
#include "core/journal.h"
#include "core/loop.h"
#include "core/policy_names.h"
#include "core/version_events.h"
#include "learner/learner_config.h"
#include "learner/reward_watch.h"
#include "learner/trainer_port.h"
#include "proto/tidemill.pb.h"
#include "store/store_port.h"

namespace tidemill {

class Metrics;

// A policy that is trained.
struct LearnedPolicy {
  PolicyId id = PolicyId::kMain;
  uint32_t batch_episodes = 64;     // B, of tasks
  uint32_t live_episodes = 0;       // trajectories of sessions, besides
  std::string checkpoint_folder{};  // empty: no checkpoints
  uint64_t steps_done = 0;          // its own, when resumed
  uint64_t version = 1;             // the one published last
  TrainerPort* trainer = nullptr;   // must outlive the loop
};

struct LearnerOptions : LearnerConfig {
  std::string worker = "local";
  PolicyNames policies;                // of the run
  std::vector<LearnedPolicy> trained;  // at least one
  uint64_t max_steps = 1000;           // of each policy
  bool prefetch = true;                // ask for the next batch while this one trains
  // Sessions are answered from a released version: a step on them waits while that is further
  // behind than this. 0: they are answered from the newest.
  uint64_t behind_max = 0;
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
  LearnerLoop(Bus& bus, StorePort& store, Journal& journal, LearnerOptions options);

  std::string_view name() const override { return "learner"; }
  void Attach(Waker& waker) override;
  Time Step(Time now) override;
  bool Drained() const override { return outbox_.waiting() == 0 && !training_; }

  // Any thread: finish the step under way, write a checkpoint, take no other.
  void FinishSoon() { finish_soon_ = true; }

  const LearnerCounters& counters() const { return counters_; }

 private:
  struct Line {
    explicit Line(const LearnedPolicy& policy);
    const LearnedPolicy about;
    uint64_t steps = 0;
    uint64_t version = 0;                  // the newest
    uint64_t version_step = 0;             // the step the newest version belongs to
    std::optional<uint64_t> asked_step{};  // a batch is owed for this step
    std::optional<v1::Batch> next_batch{};
    uint64_t checkpointed_step = 0;
    bool checkpoint_failed = false;  // the newest: it is written again with the next that are due
    uint64_t whole_step = 0;         // of its checkpoint in the newest that is whole
    RewardWatch reward_watch{};
  };
  struct Training {
    Line& line;
    v1::Batch batch;
  };
  struct Trained {
    Line& line;
    PutStep record;
  };
  struct Publishing {
    Line& line;
    uint64_t version = 0;
    uint64_t step = 0;  // the line's
    uint64_t run_step = 0;
  };
  // Checkpoints of all lines as they stood behind one step. The database learns of it when every
  // one is written, so that a run goes on with all of them or with none.
  struct Cut {
    uint64_t run_step = 0;
    uint64_t version = 0;
    std::string path{};                 // of the first line's
    std::map<Line*, uint64_t> steps{};  // of all lines
    std::set<Line*> waiting{};          // that are still written
    bool failed = false;
  };

  void TakeBatches();
  void TakeWishes();
  void TakeTrainerEvents(Time now);
  void OnTrained(Line& line, const TrainDone& done, Time now);
  void OnPublished(Line& line, const PublishDone& done);
  void Observe(const char* name, const char* help, double seconds);
  void OnCheckpoint(Line& line, const CheckpointDone& done);
  void OnSetBack(Line& line, const SetBackDone& done);
  void BeginSetBack();
  void TakeStored();
  void AskForBatch(Line& line);
  void TrainNext();
  void PublishIfReserved();
  void TellVersion(const Line& line);
  void Checkpoint();
  void FinishCuts();
  void FinishIfLast();
  void WatchReward(Line& line, const v1::Batch& batch, Numbers& numbers);
  Line* LineOf(PolicyId policy);
  PolicyStep StepOf(const Line& line, uint64_t step) const;
  // What entries of the journal say besides, where there are several policies.
  Words WordsOf(const Line& line, Words words = {}) const;
  void AddOwnStep(uint64_t step, Numbers& numbers) const;
  std::string PathOf(const Line& line) const;
  bool LastStepTaken(const Line& line) const {
    return line.steps >= options_.max_steps || finish_soon_;
  }

  Bus& bus_;
  StorePort& store_;
  Journal& journal_;
  LearnerOptions options_;
  std::string inbox_;
  Outbox outbox_;
  std::deque<Line> lines_;   // stay where they are
  std::deque<Line*> ready_;  // whose next batch is here, the first first
  std::optional<Training> training_;
  std::optional<uint64_t> reserved_;   // version that the step under way may publish
  std::deque<Trained> to_publish_;     // waiting for a reserved version
  std::deque<Publishing> publishing_;  // that trainers have not confirmed
  std::deque<Cut> cuts_;               // that are not written yet
  uint64_t next_tag_ = 1;
  uint64_t reserve_tag_ = 0;
  Time trained_at_ = Time::min();
  bool last_told_ = false;
  std::atomic<bool> finish_soon_{false};
  uint64_t released_step_ = 0;  // sessions are answered from weights of this step
  uint64_t set_back_to_ = 0;    // a version; 0: nobody wants it
  uint64_t setting_back_ = 0;   // to this version; no step begins meanwhile
  uint64_t set_back_tag_ = 0;
  LearnerCounters counters_;
};

}  // namespace tidemill
