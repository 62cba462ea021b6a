// Makes published weights ready for an engine while the engine generates.
//
//   channel --> Engine::Prepare, on a thread of its own --> Take(), on the engine's, between steps
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "engine/engine.h"
#include "weights/weight_channel.h"

namespace tidemill {

class WeightPreparer {
 public:
  struct Prepared {
    uint64_t version = 0;
    std::shared_ptr<ReadyWeights> weights;  // null: there is nothing new yet
  };

  // Both must outlive it; the destructor waits for what is being prepared.
  WeightPreparer(const Engine& engine, WeightChannel& channel);
  ~WeightPreparer();
  WeightPreparer(const WeightPreparer&) = delete;

  // The weights that are ready, once; else looks for a version above `have` and lets it be
  // prepared. Never waits. Fails as the channel and Engine::Prepare do.
  Result<Prepared> Take(uint64_t have);
  // Weights that come by no channel, in the order of the calls. `then` is called on the thread.
  // Called once, but for work that was not begun when it stops.
  using Then = std::function<void(Result<std::shared_ptr<ReadyWeights>>)>;
  void Prepare(std::shared_ptr<const Weights> weights, Then then);
  // Lets older weights go on the thread: giving back their memory takes time.
  void Discard(std::shared_ptr<ReadyWeights> weights);

 private:
  void Run();

  const Engine& engine_;
  WeightChannel& channel_;
  Mutex mutex_;
  CondVar asked_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  bool preparing_ TM_GUARDED_BY(mutex_) = false;
  PublishedWeights next_ TM_GUARDED_BY(mutex_);  // to be prepared; without weights: none
  std::optional<Result<Prepared>> finished_ TM_GUARDED_BY(mutex_);  // not taken yet
  std::deque<std::pair<std::shared_ptr<const Weights>, Then>> given_ TM_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<ReadyWeights>> old_ TM_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tidemill
