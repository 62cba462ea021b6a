// How a rollout worker follows its learner: the way the weights come, and whoever takes the
// learner's place.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "run/run_config.h"
#include "run/run_sheet.h"
#include "weights/torch/weight_codec.h"
#include "weights/weight_receiver.h"
#include "weights/weights_way.h"

namespace tidemill {

// Belongs to one thread, but for channel().
class WeightsWatch {
 public:
  // Reads the run's sheet and follows the learner by the fastest way that works: its shared memory,
  // its folder, or the broker. Not ok: none does, or not the one that the config names. `config`
  // must outlive it.
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
  WeightsWatch(const RunConfig& config, std::string bus_url, SheetBoard board, DecodeOptions decode)
      : config_(config),
        bus_url_(std::move(bus_url)),
        board_(std::move(board)),
        decode_(std::move(decode)),
        receiver_([this](const WeightBlob& blob) { return DecodeWeights(blob, decode_); }) {}
  Status FollowSheet(RunSheet sheet);
  Status FollowBy(WeightsWay way);
  // Gives a way up that brought nothing usable several times, if there is another.
  Status LookAtWay();
  // Whether weights may come this way, by the config and by what happened so far.
  bool May(WeightsWay way) const;

  const RunConfig& config_;
  const std::string bus_url_;
  SheetBoard board_;
  const DecodeOptions decode_;
  WeightReceiver receiver_;
  RunSheet sheet_;
  WeightsWay way_ = WeightsWay::kShm;
  std::set<WeightsWay> broken_;  // ways that failed with this learner
};

}  // namespace tidemill
