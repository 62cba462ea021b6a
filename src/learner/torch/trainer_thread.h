// The trainer as a port: steps, publications and checkpoints on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/metrics.h"
#include "learner/torch/rank_group.h"
#include "learner/torch/trainer.h"
#include "learner/trainer_port.h"
#include "weights/weight_channel.h"

namespace tidemill {

struct TrainerThreadOptions {
  int threads = 1;               // libtorch's, in the trainer's thread
  std::string files_from;        // model directory whose tokenizer files go into checkpoints
  uint64_t keep_last = 0;        // newest checkpoints kept; 0: all
  size_t max_outstanding = 256;  // commands not yet answered
  // What is published by a step that this divides is kept for SetBack, as is what the trainer
  // begins with, `first_version`; 0: nothing is.
  uint64_t keep_every_steps = 0;
  uint64_t first_version = 0;
  bool checkpoints_follow = false;  // memory for their copies is touched before the first
  uint64_t host_memory_bytes = 0;   // free for copies of checkpoints; 0: ask the machine
  // For tests: called in the thread that copies a checkpoint before it does; a failure fails the
  // copy.
  std::function<Status()> on_copy = nullptr;
};

// A checkpoint is what the trainer is in its turn. Another thread copies it and then writes it
// while commands behind it are carried out; the first of them that changes weights or moments waits
// for the copy (SnapshotGate). One checkpoint at a time: the next waits for it. Where the host has
// no memory for a copy, it is written in its turn.
// `channel` and `clock` must outlive it. The destructor ends the thread after the command under
// way, and after the checkpoint that is being written; what is queued behind is not carried out.
// `ranks` (null: none), of which this is rank 0, take every step together with `trainer`, stand
// where it does and are told to stop in the end.
class TrainerThread final : public TrainerPort {
 public:
  TrainerThread(std::unique_ptr<Trainer> trainer, WeightChannel& channel, const Clock& clock,
                TrainerThreadOptions options, std::unique_ptr<RankGroup> ranks = nullptr);
  ~TrainerThread() override;

  void Train(v1::Batch batch) override;
  void Publish(uint64_t version, uint64_t step) override;
  void Checkpoint(CheckpointRequest request) override;
  void SetBack(const SetBackRequest& request) override;
  void NeedOnly(const std::vector<uint64_t>& versions) override;
  Mailbox<TrainerEvent>& events() override;

  const BusyMeter& busy() const;
  // Any thread: ranks that died or hung. Not 0: no step will succeed any more.
  int ranks_lost() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
