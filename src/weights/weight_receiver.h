// A rollout worker's end of the way from the learner: a thread of its own fetches, checks and
// decodes the newest version while generation goes on; the engine only takes over a pointer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "core/mutex.h"
#include "weights/weight_channel.h"
#include "weights/weight_wire.h"

namespace tidemill {

// Thread-safe.
class WeightReceiver final : public WeightChannel {
 public:
  using Decode = std::function<Result<std::shared_ptr<const Weights>>(const WeightBlob&)>;

  explicit WeightReceiver(Decode decode);
  ~WeightReceiver() override;

  // From now on versions come from here; those of another source are kept until a newer one is
  // there.
  void Follow(std::unique_ptr<WeightSource> source);

  // A subscriber does not publish: kInvalid.
  Status Publish(PublishedWeights weights) override;
  // As WeightChannel says; what did not check out was logged and is not returned.
  Result<PublishedWeights> NewerThan(uint64_t have) override;
  // Waits for any version; not for loops. kTimeout: none came, and why if that is known.
  Result<PublishedWeights> WaitForFirst(Duration patience);
  // Versions that did not check out, in all and since the last one that did.
  uint64_t refused() const { return refused_; }
  uint64_t refused_in_a_row() const { return refused_in_a_row_; }

 private:
  void Run();
  void Fetch(WeightSource& source);
  void Pause(Duration time);

  const Decode decode_;
  std::atomic<uint64_t> version_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> refused_in_a_row_{0};
  WeightBuffers buffers_;  // the thread's

  Mutex mutex_;
  CondVar changed_;
  std::unique_ptr<WeightSource> next_source_ TM_GUARDED_BY(mutex_);
  PublishedWeights newest_ TM_GUARDED_BY(mutex_);
  Status last_failure_ TM_GUARDED_BY(mutex_);
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill
