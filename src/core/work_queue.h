// Threads that work on what is put into a bounded queue.
//
//   Put(job) -> queue -> one of the threads: work(job)
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"

namespace tidemill {

// Thread-safe. Declare it behind everything its work uses: the destructor waits for the threads.
template <typename Job>
class WorkQueue {
 public:
  using Batch = std::vector<Job>;
  // The fate of jobs that wait when the queue is stopped.
  enum class AtEnd { kForget, kFinish };

  explicit WorkQueue(size_t capacity, AtEnd at_end = AtEnd::kForget)
      : capacity_(capacity), at_end_(at_end) {}
  ~WorkQueue() {
    Stop();
    for (std::thread& thread : threads_) thread.join();
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // One more thread. Of the owner's thread alone.
  void Start(std::function<void(Job)> work) {
    StartBatches([work = std::move(work)](Batch jobs) { work(std::move(jobs.front())); },
                 [](const Batch&, const Job&) { return false; });
  }
  // The same, but it takes a job and those behind it as long as they join what it has.
  void StartBatches(std::function<void(Batch)> work,
                    std::function<bool(const Batch&, const Job&)> joins) {
    threads_.emplace_back([this, work = std::move(work), joins = std::move(joins)] {
      for (Batch jobs = Next(joins); !jobs.empty(); jobs = Next(joins)) work(std::move(jobs));
    });
  }

  // False: there is no room.
  [[nodiscard]] bool TryPut(Job job) {
    {
      MutexLock lock(mutex_);
      if (waiting_.size() >= capacity_) return false;
      waiting_.push_back(std::move(job));
    }
    changed_.NotifyOne();
    return true;
  }
  // The owner submits no more than there is room for.
  void Put(Job job) { TM_CHECK(TryPut(std::move(job)), "more was submitted than may wait"); }

  // The threads end after what they do now, or after what waits.
  void Stop() {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      if (at_end_ == AtEnd::kForget) waiting_.clear();
    }
    changed_.NotifyAll();
  }

 private:
  // Nothing: the queue was stopped.
  Batch Next(const std::function<bool(const Batch&, const Job&)>& joins) {
    MutexLock lock(mutex_);
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return stopping_ || !waiting_.empty(); });
    Batch jobs;
    while (!waiting_.empty() && (jobs.empty() || joins(jobs, waiting_.front()))) {
      jobs.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return jobs;
  }

  const size_t capacity_;
  const AtEnd at_end_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> waiting_ TM_GUARDED_BY(mutex_);
  bool stopping_ TM_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace tidemill
