#include "engine/weight_preparer.h"

#include <utility>

namespace tidemill {

WeightPreparer::WeightPreparer(const Engine& engine, WeightChannel& channel)
    : engine_(engine), channel_(channel), thread_([this] { Run(); }) {}

WeightPreparer::~WeightPreparer() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  asked_.NotifyOne();
  thread_.join();
}

Result<WeightPreparer::Prepared> WeightPreparer::Take(uint64_t have) {
  MutexLock lock(mutex_);
  if (finished_) {
    preparing_ = false;
    return std::move(*std::exchange(finished_, std::nullopt));
  }
  if (preparing_) return Prepared();
  TM_ASSIGN_OR_RETURN(next_, channel_.NewerThan(have));
  if (next_.weights == nullptr) return Prepared();
  preparing_ = true;
  asked_.NotifyOne();
  return Prepared();
}

void WeightPreparer::Prepare(std::shared_ptr<const Weights> weights, Then then) {
  {
    MutexLock lock(mutex_);
    given_.emplace_back(std::move(weights), std::move(then));
  }
  asked_.NotifyOne();
}

void WeightPreparer::Discard(std::shared_ptr<ReadyWeights> weights) {
  {
    MutexLock lock(mutex_);
    old_.push_back(std::move(weights));
  }
  asked_.NotifyOne();
}

void WeightPreparer::Run() {
  MutexLock lock(mutex_);
  while (true) {
    asked_.Wait(lock, [this]() TM_REQUIRES(mutex_) {
      return stop_ || next_.weights != nullptr || !given_.empty() || !old_.empty();
    });
    if (stop_) return;
    PublishedWeights next = std::exchange(next_, {});
    auto given = std::exchange(given_, {});
    std::vector<std::shared_ptr<ReadyWeights>> old = std::exchange(old_, {});
    lock.Unlock();
    old.clear();
    for (auto& [weights, then] : given) then(engine_.Prepare(std::move(weights)));
    given.clear();
    std::optional<Result<Prepared>> finished;
    if (next.weights != nullptr) {
      Result<std::shared_ptr<ReadyWeights>> ready = engine_.Prepare(std::move(next.weights));
      finished = ready.ok() ? Result<Prepared>(Prepared{next.version, std::move(*ready)})
                            : Result<Prepared>(ready.status());
    }
    lock.Lock();
    if (finished) finished_ = std::move(finished);
  }
}

}  // namespace tidemill
