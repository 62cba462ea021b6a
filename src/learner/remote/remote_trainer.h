// The trainer as a port over ranks of another program: `learner.backend = "fsdp2"`.
//
//   commands --> thread: RemoteStep over RankLink --> events()
//   Publish --> the ranks write a model directory --> `take` --> WeightChannel
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/metrics.h"
#include "learner/remote/remote_step.h"
#include "learner/trainer_port.h"
#include "weights/stored_weights.h"
#include "weights/weight_channel.h"

namespace tidemill {

struct RemoteTrainerOptions {
  RemoteStepOptions step;
  std::string folder;                    // where versions are written
  std::string publish_dtype;             // "float32", "bfloat16"
  bool merged = true;                    // whole models are published, also where an adapter trains
  std::vector<int32_t> canary_ids = {};  // scored at every publication; empty: none are
  size_t max_outstanding = 256;          // commands not yet answered
  // What subscribers get of a version that was written.
  std::function<Result<std::shared_ptr<const Weights>>(std::shared_ptr<const StoredWeights>)> take;
  // Makes the directory `path` whole or not at all; `fill` writes what is the trainer's into a
  // place beside it.
  std::function<Status(const std::string& path,
                       const std::function<Status(const std::string& made)>& fill)>
      write_checkpoint;
};

class RemoteTrainer final : public TrainerPort {
 public:
  // `checkpoint`: a directory of an earlier RemoteTrainer to go on from; empty: begin. kInvalid,
  // kCorrupt: it does not fit, or holds another step.
  static Result<std::unique_ptr<RemoteTrainer>> Start(std::unique_ptr<RankLink> link,
                                                      RemoteTrainerOptions options,
                                                      const std::string& checkpoint, uint64_t step,
                                                      uint64_t version, WeightChannel& channel,
                                                      const Clock& clock);
  ~RemoteTrainer() override;

  void Train(v1::Batch batch) override;
  void Publish(uint64_t version, uint64_t step) override;
  void Checkpoint(CheckpointRequest request) override;
  Mailbox<TrainerEvent>& events() override;

  const BusyMeter& busy() const;
  // Any thread. Not 0: no step will succeed any more.
  int ranks_lost() const;

 private:
  class Impl;
  explicit RemoteTrainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
