#include "engine/weight_preparer.h"

#include <utility>

namespace tidemill {

WeightPreparer::WeightPreparer(const Engine& engine, WeightChannel& channel)
    : engine_(engine), channel_(channel), thread_([this] { Run(); }) {}

WeightPreparer::~WeightPreparer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

Result<WeightPreparer::Prepared> WeightPreparer::Take(uint64_t have) {
  std::lock_guard lock(mutex_);
  if (finished_) {
    preparing_ = false;
    return std::move(*std::exchange(finished_, std::nullopt));
  }
  if (preparing_) return Prepared();
  TM_ASSIGN_OR_RETURN(next_, channel_.NewerThan(have));
  if (next_.weights == nullptr) return Prepared();
  preparing_ = true;
  asked_.notify_one();
  return Prepared();
}

void WeightPreparer::Discard(std::shared_ptr<ReadyWeights> weights) {
  {
    std::lock_guard lock(mutex_);
    old_.push_back(std::move(weights));
  }
  asked_.notify_one();
}

void WeightPreparer::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    asked_.wait(lock, [this] { return stop_ || next_.weights != nullptr || !old_.empty(); });
    if (stop_) return;
    PublishedWeights next = std::exchange(next_, {});
    std::vector<std::shared_ptr<ReadyWeights>> old = std::exchange(old_, {});
    lock.unlock();
    old.clear();
    std::optional<Result<Prepared>> finished;
    if (next.weights != nullptr) {
      Result<std::shared_ptr<ReadyWeights>> ready = engine_.Prepare(std::move(next.weights));
      finished = ready.ok() ? Result<Prepared>(Prepared{next.version, std::move(*ready)})
                            : Result<Prepared>(ready.status());
    }
    lock.lock();
    if (finished) finished_ = std::move(finished);
  }
}

}  // namespace tidemill
