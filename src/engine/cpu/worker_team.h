// A few threads that do one thing together and wait for one another.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "core/mutex.h"

namespace tidemill {

// Run() belongs to one thread, which works as number 0; the others wait between two runs.
class WorkerTeam {
 public:
  explicit WorkerTeam(int size) : size_(size < 1 ? 1 : size) {
    for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { Work(i); });
  }
  ~WorkerTeam() {
    {
      MutexLock lock(mutex_);
      stop_ = true;
    }
    start_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  int size() const { return size_; }

  // Calls task(0) .. task(size - 1), each on its own thread; returns when all are done. The task
  // must not throw.
  void Run(const std::function<void(int)>& task) {
    if (size_ > 1) {
      MutexLock lock(mutex_);
      task_ = &task;
      left_ = size_ - 1;
      ++round_;
    }
    start_.NotifyAll();
    task(0);
    MutexLock lock(mutex_);
    done_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return left_ == 0; });
  }

 private:
  void Work(int number) {
    uint64_t seen = 0;
    MutexLock lock(mutex_);
    while (true) {
      start_.Wait(lock, [&]() TM_REQUIRES(mutex_) { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      const std::function<void(int)>* task = task_;
      lock.Unlock();
      (*task)(number);
      lock.Lock();
      if (--left_ == 0) done_.NotifyOne();
    }
  }

  const int size_;
  Mutex mutex_;
  CondVar start_, done_;
  const std::function<void(int)>* task_ TM_GUARDED_BY(mutex_) = nullptr;
  uint64_t round_ TM_GUARDED_BY(mutex_) = 0;
  int left_ TM_GUARDED_BY(mutex_) = 0;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tidemill
