// The learner's end of the way to other processes: shared memory always, files and the broker from
// the first time that somebody asks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "core/mutex.h"
#include "weights/shm_weights.h"
#include "weights/weight_carrier.h"
#include "weights/weight_channel.h"
#include "weights/weight_wire.h"
#include "weights/weights_way.h"

namespace tidemill {

// Thread-safe.
class WeightPublisher final : public WeightChannel {
 public:
  using Encode = std::function<Result<EncodedWeights>(const Weights&)>;

  struct Options {
    uint64_t incarnation = 1;      // of this publisher; see ShmWeightSink
    std::string folder = {};       // for files; empty: none
    WeightCarrier::Open bus = {};  // the broker's place; empty: none
  };
  WeightPublisher(Encode encode, Options options);

  // Returns when subscribers on this host can have it; to others it is on its way. What cannot be
  // taken there is a warning: those who wait for it keep what they have.
  Status Publish(PublishedWeights weights) override;
  Result<PublishedWeights> NewerThan(uint64_t have) override;

  // From the first time on, versions travel that way as well, the newest at once.
  void Want(WeightsWay way);
  // Waits until nothing is on its way. Not for loops.
  void Flush();
  // Of shared memory, and of the ways that somebody asked for.
  std::map<WeightsWay, CarrierFigures> figures() const;

  // Where the shared memory is; empty before the first version, and where there is none.
  std::string shm_location() const;
  const Options& options() const { return options_; }

 private:
  Result<std::shared_ptr<const TravellingWeights>> Pack(const PublishedWeights& weights) const;
  void AddCarrier(WeightsWay way) TM_REQUIRES(mutex_);

  const Encode encode_;
  const Options options_;
  mutable Mutex mutex_;
  PublishedWeights newest_ TM_GUARDED_BY(mutex_);
  std::unique_ptr<ShmWeightSink> shm_ TM_GUARDED_BY(mutex_);
  bool no_shm_ TM_GUARDED_BY(mutex_) = false;  // there is no memory to share
  CarrierFigures shm_figures_ TM_GUARDED_BY(mutex_);
  std::map<WeightsWay, std::unique_ptr<WeightCarrier>> carriers_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
