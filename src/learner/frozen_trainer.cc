#include "learner/frozen_trainer.h"

#include <utility>

namespace tidemill {

void FrozenTrainer::Train(v1::Batch batch) {
  events_.Post(TrainDone{batch.step(), Ok(), {{"tokens", 0}, {"seconds", 0}}});
}

void FrozenTrainer::Publish(uint64_t version, uint64_t step) {
  events_.Post(PublishDone{version, channel_.Publish({version, step, weights_}), 0});
}

void FrozenTrainer::Checkpoint(CheckpointRequest request) {
  events_.Post(CheckpointDone{request.step, request.version, std::move(request.path),
                              Invalid("memory.only writes no checkpoints"), 0, 0});
}

}  // namespace tidemill
