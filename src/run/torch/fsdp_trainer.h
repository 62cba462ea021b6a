// From the config's words to ranks of FSDP2 and a trainer over them.
#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "core/status.h"
#include "learner/remote/remote_trainer.h"
#include "run/run_config.h"
#include "run/torch/make_trainer.h"
#include "weights/weight_channel.h"

namespace tidemill {

struct FsdpPlace {
  std::string folder;        // of what the ranks write and print
  bool for_servers = false;  // subscribers read files; else they want weights in memory
};

// Starts learner.command and waits until all ranks have the model. Failures name the key or where
// the ranks' log is.
Result<std::unique_ptr<RemoteTrainer>> MakeFsdpTrainer(const RunConfig& config,
                                                       const TrainerStart& start,
                                                       const FsdpPlace& place,
                                                       WeightChannel& channel, const Clock& clock);

}  // namespace tidemill
