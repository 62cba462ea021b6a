#include "weights/weight_channel.h"

#include <atomic>
#include <string>

#include "core/mutex.h"

namespace tidemill {
namespace {

class LocalWeightChannel final : public WeightChannel {
 public:
  explicit LocalWeightChannel(HoldWeights hold) : hold_(hold) {}

  Status Publish(PublishedWeights weights) override {
    if (weights.weights == nullptr) return Invalid("nothing to publish: the weights are missing");
    MutexLock lock(mutex_);
    if (weights.version <= newest_.version) {
      return Invalid("version " + std::to_string(weights.version) + " is not above " +
                     std::to_string(newest_.version) + ", the newest published");
    }
    newest_ = std::move(weights);
    version_.store(newest_.version, std::memory_order_release);
    return Ok();
  }

  Result<PublishedWeights> NewerThan(uint64_t have) override {
    if (version_.load(std::memory_order_acquire) <= have) return PublishedWeights{};
    MutexLock lock(mutex_);
    return newest_.weights != nullptr ? newest_ : PublishedWeights{};
  }

  void Taken(uint64_t version) override {
    if (hold_ != HoldWeights::kUntilTaken) return;
    std::shared_ptr<const Weights> gone;  // freed without the lock
    MutexLock lock(mutex_);
    if (version >= newest_.version) gone = std::move(newest_.weights);
  }

 private:
  const HoldWeights hold_;
  std::atomic<uint64_t> version_{0};
  Mutex mutex_;
  PublishedWeights newest_ TM_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<WeightChannel> NewLocalWeightChannel(HoldWeights hold) {
  return std::make_unique<LocalWeightChannel>(hold);
}

}  // namespace tidemill
