// From the config's words to the weights a run starts with and a trainer on its own thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/status.h"
#include "learner/torch/trainer_thread.h"
#include "model/torch/model.h"
#include "run/run_config.h"
#include "weights/weight_channel.h"

namespace tidemill {

// model.device, "auto" decided. kInvalid: there is no such device here.
Result<std::string> DeviceOf(const RunConfig& config);

// The policy before anything is learned: the weights in model.path or, with model.init = "random",
// new ones of its shape, the same for the same seed. In float32. On a GPU, below an adapter or with
// learner.moments = int8, as one block of bfloat16 (model/torch/weight_block.h); on the CPU, below
// an adapter, in bfloat16 where they are stored so.
Result<std::shared_ptr<const PolicyWeights>> BaseWeights(const RunConfig& config,
                                                         const std::string& device);

// BaseWeights, with the adapter of model.adapter, or a new one of learner.lora_rank, on it.
// `checkpoint`: a directory to go on from instead; empty: none. `base`: weights of this run that
// are loaded already; with an adapter their base is used and not loaded again. Null: there are
// none.
Result<std::shared_ptr<const PolicyWeights>> LoadStartWeights(
    const RunConfig& config, const std::string& checkpoint,
    std::shared_ptr<const PolicyWeights> base = nullptr);

// model.path with model.adapter for an engine whose weights nobody changes: on a GPU a block of
// bfloat16 that it reads where it lies (EngineOptions::fixed_base).
Result<std::shared_ptr<const PolicyWeights>> LoadServedWeights(const RunConfig& config);

struct TrainerStart {
  std::shared_ptr<const PolicyWeights> weights;
  std::string checkpoint;  // optimizer and progress to go on with; empty: begin
  uint64_t version = 0;    // published before the first step
  uint64_t step = 0;       // steps done
  int threads = 1;
  std::map<uint64_t, int64_t> budgets = {};  // as Trainer::RepeatBudgets wants them
};

// What the config says of the learner. kInvalid names the key.
Result<TrainerOptions> TrainerOptionsFrom(const RunConfig& config);

// kInvalid names the key or the file.
Result<std::unique_ptr<Trainer>> NewTrainer(const RunConfig& config, const TrainerStart& start);
// The same, on a thread of its own.
Result<std::unique_ptr<TrainerThread>> MakeTrainer(const RunConfig& config,
                                                   const TrainerStart& start,
                                                   WeightChannel& channel, const Clock& clock);

}  // namespace tidemill
