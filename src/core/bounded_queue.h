// A bounded queue between threads that may wait: what a port's threads take their work from. A loop
// never waits; it uses TryPush here and a Mailbox for the answers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "core/status.h"

namespace tidemill {

// Thread-safe. First in, first out. Once closed, what is inside can still be taken.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) { TM_CHECK(capacity > 0); }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Waits for room. False: closed, and `item` was dropped.
  bool Push(T item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return closed_ || items_.size() < capacity_; });
    return Put(lock, std::move(item));
  }

  // Never waits. False: full or closed, and `item` is as it was.
  bool TryPush(T&& item) {
    std::unique_lock lock(mutex_);
    if (items_.size() >= capacity_) return false;
    return Put(lock, std::move(item));
  }
  bool TryPush(const T& item) {
    T copy = item;
    return TryPush(std::move(copy));
  }

  // Waits for an item. Nothing: closed and empty.
  std::optional<T> Pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return closed_ || !items_.empty(); });
    return Take(lock);
  }

  // Never waits.
  std::optional<T> TryPop() {
    std::unique_lock lock(mutex_);
    return Take(lock);
  }

  // Nothing more goes in; everyone who waits is let go. May be called again.
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    room_.notify_all();
    filled_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  bool Put(std::unique_lock<std::mutex>& lock, T&& item) {
    if (closed_) return false;
    items_.push_back(std::move(item));
    lock.unlock();
    filled_.notify_one();
    return true;
  }

  std::optional<T> Take(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable filled_;
  std::deque<T> items_;  // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace tidemill
