// How a rollout worker follows its learner: the way the weights come, and whoever takes the
// learner's place.
#pragma once

#include <memory>
#include <string>

#include "config/run_config.h"
#include "run/run_sheet.h"
#include "weights/torch/weight_codec.h"
#include "weights/weight_receiver.h"

namespace tidemill {

// Belongs to one thread, but for channel().
class WeightsWatch {
 public:
  // Reads the run's sheet and follows what it names: shared memory where the learner's can be
  // opened, else files. Not ok: neither can be. `config` must outlive it.
  static Result<std::unique_ptr<WeightsWatch>> Follow(const RunConfig& config,
                                                      const std::string& bus_url,
                                                      const std::string& run,
                                                      const SheetKeys& keys);

  // Waits for the first version. kClosed: asked to stop first.
  Result<PublishedWeights> First();
  // Looks whether there is another learner; `version` is what the engine has. Not ok: this worker
  // cannot go on.
  Status Look(uint64_t version);

  WeightChannel& channel() { return receiver_; }

 private:
  WeightsWatch(const RunConfig& config, SheetBoard board, DecodeOptions decode)
      : config_(config),
        board_(std::move(board)),
        decode_(std::move(decode)),
        receiver_([this](const WeightBlob& blob) { return DecodeWeights(blob, decode_); }) {}
  Status FollowSheet(RunSheet sheet);

  const RunConfig& config_;
  SheetBoard board_;
  const DecodeOptions decode_;
  WeightReceiver receiver_;
  RunSheet sheet_;
  bool by_files_ = false;
};

}  // namespace tidemill
