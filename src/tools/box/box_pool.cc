#include "tools/box/box_pool.h"

#include <chrono>

#include "core/log.h"

namespace tidemill {

BoxPool::BoxPool(BoxHost& host, size_t size) : host_(host), size_(size) {
  if (size_ > 0) filler_ = std::thread([this] { Fill(); });
}

BoxPool::~BoxPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (filler_.joinable()) filler_.join();
}

Result<std::unique_ptr<Box>> BoxPool::Take() {
  {
    std::lock_guard lock(mutex_);
    while (!ready_.empty()) {
      std::unique_ptr<Box> box = std::move(ready_.front());
      ready_.pop_front();
      changed_.notify_all();
      if (!box->usable()) continue;
      ++stats_.warm;
      return box;
    }
    ++stats_.cold;
  }
  return host_.Open();
}

BoxPool::Stats BoxPool::stats() const {
  std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.ready = ready_.size();
  return stats;
}

void BoxPool::WaitUntilFull() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_.size() >= size_ || failed_ || stopping_; });
}

void BoxPool::Fill() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (ready_.size() >= size_) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    auto opened = host_.Open();
    if (opened.ok()) (*opened)->AwaitReady();
    lock.lock();
    failed_ = !opened.ok();
    if (opened.ok()) {
      ready_.push_back(std::move(*opened));
    } else {
      LogEvery(std::chrono::seconds(60), "box-pool", LogLevel::kWarn, "no box could be opened",
               {{"cause", opened.status().message()}});
      changed_.wait_for(lock, std::chrono::milliseconds(200));
    }
    changed_.notify_all();
  }
}

void SinkBoxes(const BoxPool::Stats& stats, MetricSink& sink) {
  const char* help = "Boxes used: taken ready from the pool, or opened on demand";
  sink.Counter("tidemill_boxes_total", help, static_cast<double>(stats.warm), {{"how", "ready"}});
  sink.Counter("tidemill_boxes_total", help, static_cast<double>(stats.cold),
               {{"how", "on_demand"}});
}

}  // namespace tidemill
