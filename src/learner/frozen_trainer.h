// The trainer of a run that learns by memory alone: it takes batches so that the run goes on, and
// publishes the weights it was given, every time.
#pragma once

#include <memory>
#include <utility>

#include "learner/trainer_port.h"
#include "weights/weight_channel.h"

namespace tidemill {

// Answers at once, in the caller's thread.
class FrozenTrainer final : public TrainerPort {
 public:
  FrozenTrainer(std::shared_ptr<const Weights> weights, WeightChannel& channel)
      : weights_(std::move(weights)), channel_(channel) {}

  void Train(v1::Batch batch) override;
  void Publish(uint64_t version, uint64_t step) override;
  // There is nothing to save: the weights are those the run began with.
  void Checkpoint(CheckpointRequest request) override;
  Mailbox<TrainerEvent>& events() override { return events_; }

 private:
  const std::shared_ptr<const Weights> weights_;
  WeightChannel& channel_;
  Mailbox<TrainerEvent> events_{64};
};

}  // namespace tidemill
