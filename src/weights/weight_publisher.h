// The learner's end of the way to other processes: shared memory always, files while somebody asks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/mutex.h"
#include "weights/shm_weights.h"
#include "weights/weight_channel.h"
#include "weights/weight_wire.h"

namespace tidemill {

// Weights as they travel. `keeps` holds what the parts point into.
struct EncodedWeights {
  std::unique_ptr<const SafetensorsParts> parts;
  std::shared_ptr<const void> keeps;
};

// Thread-safe.
class WeightPublisher final : public WeightChannel {
 public:
  using Encode = std::function<Result<EncodedWeights>(const Weights&)>;

  struct Options {
    uint64_t incarnation = 1;  // of this publisher; see ShmWeightSink
    std::string folder = {};   // for files; empty: none
  };
  WeightPublisher(Encode encode, Options options);

  // Returns when subscribers can have it. Files that cannot be written are a warning: those who
  // wait for them keep what they have.
  Status Publish(PublishedWeights weights) override;
  Result<PublishedWeights> NewerThan(uint64_t have) override;

  // From the first time on, versions are written to the folder as well, the newest at once.
  void WantFiles();

  // Where the shared memory is; empty before the first version, and where there is none.
  std::string shm_location() const;
  const Options& options() const { return options_; }

 private:
  void PutFiles(const SafetensorsParts& parts) TM_REQUIRES(mutex_);

  const Encode encode_;
  const Options options_;
  mutable Mutex mutex_;
  PublishedWeights newest_ TM_GUARDED_BY(mutex_);
  std::unique_ptr<ShmWeightSink> shm_ TM_GUARDED_BY(mutex_);
  bool no_shm_ TM_GUARDED_BY(mutex_) = false;  // there is no memory to share
  std::unique_ptr<WeightSink> files_ TM_GUARDED_BY(mutex_);
  bool want_files_ TM_GUARDED_BY(mutex_) = false;
};

}  // namespace tidemill
