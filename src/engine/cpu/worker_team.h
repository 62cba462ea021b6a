// A few threads that do one thing together and wait for one another.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tidemill {

// Run() belongs to one thread, which works as number 0; the others wait between two runs.
class WorkerTeam {
 public:
  explicit WorkerTeam(int size) : size_(size < 1 ? 1 : size) {
    for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { Work(i); });
  }
  ~WorkerTeam() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return size_; }

  // Calls task(0) .. task(size - 1), each on its own thread; returns when all are done. The task
  // must not throw.
  void Run(const std::function<void(int)>& task) {
    if (size_ > 1) {
      std::lock_guard lock(mutex_);
      task_ = &task;
      left_ = size_ - 1;
      ++round_;
    }
    start_.notify_all();
    task(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  void Work(int number) {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      const std::function<void(int)>* task = task_;
      lock.unlock();
      (*task)(number);
      lock.lock();
      if (--left_ == 0) done_.notify_one();
    }
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* task_ = nullptr;  // guarded by mutex_
  uint64_t round_ = 0;                              // guarded by mutex_
  int left_ = 0;                                    // guarded by mutex_
  bool stop_ = false;                               // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace tidemill
