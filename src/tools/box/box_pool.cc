#include "tools/box/box_pool.h"

#include <chrono>

#include "core/log.h"

namespace tidemill {

BoxPool::BoxPool(BoxHost& host, size_t size) : host_(host), size_(size) {
  if (size_ > 0) filler_ = std::thread([this] { Fill(); });
}

BoxPool::~BoxPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (filler_.joinable()) filler_.join();
}

Result<std::unique_ptr<Box>> BoxPool::Take() {
  {
    MutexLock lock(mutex_);
    while (!ready_.empty()) {
      std::unique_ptr<Box> box = std::move(ready_.front());
      ready_.pop_front();
      changed_.NotifyAll();
      if (!box->usable()) continue;
      ++stats_.warm;
      return box;
    }
    ++stats_.cold;
  }
  return host_.Open();
}

BoxPool::Stats BoxPool::stats() const {
  MutexLock lock(mutex_);
  Stats stats = stats_;
  stats.ready = ready_.size();
  return stats;
}

void BoxPool::WaitUntilFull() {
  MutexLock lock(mutex_);
  changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) {
    return ready_.size() >= size_ || failed_ || stopping_;
  });
}

void BoxPool::Fill() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (ready_.size() >= size_) {
      changed_.Wait(lock);
      continue;
    }
    lock.Unlock();
    auto opened = host_.Open();
    if (opened.ok()) (*opened)->AwaitReady();
    lock.Lock();
    failed_ = !opened.ok();
    if (opened.ok()) {
      ready_.push_back(std::move(*opened));
    } else {
      LogEvery(std::chrono::seconds(60), "box-pool", LogLevel::kWarn, "no box could be opened",
               {{"cause", opened.status().message()}});
      changed_.WaitFor(lock, std::chrono::milliseconds(200));
    }
    changed_.NotifyAll();
  }
}

void SinkBoxes(const BoxPool::Stats& stats, MetricSink& sink) {
  const char* help = "Boxes used: taken ready from the pool, or opened on demand";
  sink.Counter("tidemill_boxes_total", help, static_cast<double>(stats.warm), {{"how", "ready"}});
  sink.Counter("tidemill_boxes_total", help, static_cast<double>(stats.cold),
               {{"how", "on_demand"}});
}

}  // namespace tidemill
