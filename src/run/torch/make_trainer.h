// From the config's words to the weights a run starts with and a trainer on its own thread.
#pragma once

#include <memory>
#include <string>

#include "config/run_config.h"
#include "core/clock.h"
#include "core/status.h"
#include "learner/torch/trainer_thread.h"
#include "model/torch/model.h"
#include "weights/weight_channel.h"

namespace tidemill {

// model.device, "auto" decided. kInvalid: there is no such device here.
Result<std::string> DeviceOf(const RunConfig& config);

// model.path, with the adapter of model.adapter, or a new one of learner.lora_rank, on it.
// `checkpoint`: a directory to go on from instead; empty: none.
Result<std::shared_ptr<const PolicyWeights>> LoadStartWeights(const RunConfig& config,
                                                              const std::string& checkpoint);

struct TrainerStart {
  std::shared_ptr<const PolicyWeights> weights;
  std::string checkpoint;  // optimizer and progress to go on with; empty: begin
  uint64_t version = 0;    // published before the first step
  uint64_t step = 0;       // steps done
  int threads = 1;
};

// kInvalid names the key or the file.
Result<std::unique_ptr<Trainer>> NewTrainer(const RunConfig& config, const TrainerStart& start);
// The same, on a thread of its own.
Result<std::unique_ptr<TrainerThread>> MakeTrainer(const RunConfig& config,
                                                   const TrainerStart& start,
                                                   WeightChannel& channel, const Clock& clock);

}  // namespace tidemill
