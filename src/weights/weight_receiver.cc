#include "weights/weight_receiver.h"

#include <utility>

#include "core/log.h"

namespace tidemill {
namespace {

// How long the thread sleeps at most before it looks whether it should stop or follow another.
constexpr Duration kNap = milliseconds(100);
// After a version that does not check out.
constexpr Duration kSpoiltPause = std::chrono::seconds(1);

}  // namespace

WeightReceiver::WeightReceiver(Decode decode)
    : decode_(std::move(decode)), thread_([this] { Run(); }) {}

WeightReceiver::~WeightReceiver() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void WeightReceiver::Follow(std::unique_ptr<WeightSource> source) {
  MutexLock lock(mutex_);
  next_source_ = std::move(source);
  changed_.NotifyAll();
}

Status WeightReceiver::Publish(PublishedWeights) {
  return Invalid("a subscriber of weights does not publish any");
}

Result<PublishedWeights> WeightReceiver::NewerThan(uint64_t have) {
  if (version_.load(std::memory_order_acquire) <= have) return PublishedWeights{};
  MutexLock lock(mutex_);
  return newest_;
}

Result<PublishedWeights> WeightReceiver::WaitForFirst(Duration patience) {
  MutexLock lock(mutex_);
  if (changed_.WaitFor(lock, patience,
                       [this]() TM_REQUIRES(mutex_) { return newest_.weights != nullptr; }))
    return newest_;
  return Timeout("received no weights" +
                 (last_failure_.ok() ? std::string() : ": " + last_failure_.message()));
}

void WeightReceiver::Pause(Duration time) {
  MutexLock lock(mutex_);
  changed_.WaitFor(lock, time,
                   [this]() TM_REQUIRES(mutex_) { return stop_ || next_source_ != nullptr; });
}

void WeightReceiver::Run() {
  std::unique_ptr<WeightSource> source;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stop_) return;
      if (next_source_ != nullptr) source = std::move(next_source_), refused_in_a_row_ = 0;
    }
    if (source == nullptr) {
      Pause(kNap);
      continue;
    }
    source->WaitForNewer(version_, kNap);
    Fetch(*source);
  }
}

void WeightReceiver::Fetch(WeightSource& source) {
  Result<WeightBlob> blob = source.NewerThan(version_, buffers_);
  if (blob.ok() && blob->version == 0) return;
  Result<std::shared_ptr<const Weights>> weights =
      blob.ok() ? decode_(*blob) : Result<std::shared_ptr<const Weights>>(blob.status());
  if (!weights.ok()) {
    ++refused_;
    ++refused_in_a_row_;
    Log(LogLevel::kWarn, "rejected new weights",
        {{"have", version_.load()}, {"why", weights.status().message()}});
    {
      MutexLock lock(mutex_);
      last_failure_ = weights.status();
    }
    return Pause(kSpoiltPause);
  }
  MutexLock lock(mutex_);
  newest_ = {blob->version, blob->step, std::move(*weights)};
  refused_in_a_row_ = 0;
  version_.store(blob->version, std::memory_order_release);
  changed_.NotifyAll();
}

}  // namespace tidemill
