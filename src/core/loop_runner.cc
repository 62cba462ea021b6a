#include "core/loop_runner.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "core/log.h"
#include "core/metrics.h"

namespace tidemill {
namespace {

Time Now() {
  return std::chrono::steady_clock::now();
}

// The time `d` from now, without overflow.
Time After(Duration d) {
  const Time now = Now();
  return d >= kNever - now ? kNever : now + d;
}

void NameThisThread(std::string_view name) {
  // The kernel keeps 15 characters.
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

std::string WhatIsThrown() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is not a std::exception";
  }
}

}  // namespace

std::string StuckLoop(const std::vector<LoopUsage>& loops) {
  for (const LoopUsage& loop : loops) {
    if (loop.in_step < std::chrono::minutes(1)) continue;
    return "loop \"" + loop.name + "\" has been in one step for " +
           std::to_string(static_cast<int>(Seconds(loop.in_step))) + " s";
  }
  return "";
}

// One loop, its thread, and what others tell it.
class LoopRunner::Worker final : public Waker {
 public:
  Worker(LoopRunner& runner, Loop& loop) : runner_(runner), loop_(loop), name_(loop.name()) {}

  const std::string& name() const { return name_; }
  void Attach() { loop_.Attach(*this); }
  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  void Wake() override {
    // Already due for a step that has not begun: that step will see what arrived.
    if (woken_.exchange(true, std::memory_order_acq_rel)) return;
    std::lock_guard lock(mutex_);
    changed_.notify_one();
  }

  void RequestDrain() {
    std::lock_guard lock(mutex_);
    drain_ = true;
    changed_.notify_one();
  }

  void RequestStop() {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_one();
  }

  std::unique_lock<std::mutex> Lock() { return std::unique_lock(mutex_); }
  // Under Lock(): nothing is held, under way or waiting to be seen.
  bool Quiet() const { return ended_ || (drained_ && parked_ && !woken_.load()); }
  // Under Lock().
  bool Drained() const { return ended_ || drained_; }

  LoopUsage Usage() const {
    const Time now = Now();
    return {name_, busy_.Busy(now), steps_.load(), Duration(longest_step_ns_.load()),
            busy_.UnderWay(now)};
  }

 private:
  void Run() {
    NameThisThread(name_);
    try {
      while (StepOnce()) {
      }
    } catch (...) {
      busy_.End(Now());
      runner_.Fail(name_, WhatIsThrown());
    }
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
    }
    runner_.Poke();
  }

  // Waits until a step is due and takes it. False: stop.
  bool StepOnce() {
    if (!Park()) return false;
    woken_.exchange(false, std::memory_order_acq_rel);
    if (draining_ && !told_to_drain_) {
      told_to_drain_ = true;
      loop_.Drain();
    }
    const Time begin = Now();
    busy_.Begin(begin);
    next_ = loop_.Step(begin);
    const Time end = Now();
    busy_.End(end);
    Count(end - begin);
    if (told_to_drain_) SetDrained(loop_.Drained());
    return true;
  }

  // Waits for a wake, an order or next_. False: stop.
  bool Park() {
    std::unique_lock lock(mutex_);
    auto due = [this] { return stop_ || woken_.load() || (drain_ && !draining_); };
    parked_ = true;
    if (drained_ && !due()) runner_.Poke();
    if (next_ == kNever) {
      changed_.wait(lock, due);
    } else if (next_ > Now()) {
      changed_.wait_until(lock, next_, due);
    }
    parked_ = false;
    draining_ = drain_;
    return !stop_;
  }

  void SetDrained(bool drained) {
    std::lock_guard lock(mutex_);
    drained_ = drained;
  }

  void Count(Duration step) {
    steps_.fetch_add(1, std::memory_order_relaxed);
    if (step.count() > longest_step_ns_.load(std::memory_order_relaxed)) {
      longest_step_ns_.store(step.count(), std::memory_order_relaxed);
    }
    if (step > runner_.options_.slow_step) {
      LogEvery(std::chrono::seconds(30), "slow step of " + name_, LogLevel::kWarn, "slow loop step",
               {{"loop", name_}, {"ms", Milliseconds(step)}});
    }
  }

  LoopRunner& runner_;
  Loop& loop_;
  const std::string name_;
  std::thread thread_;

  // Of the loop's thread alone.
  Time next_ = Time::min();
  bool draining_ = false;
  bool told_to_drain_ = false;

  BusyMeter busy_;
  std::atomic<uint64_t> steps_{0};
  std::atomic<int64_t> longest_step_ns_{0};

  // True from a Wake() until the step that answers it begins. Set without the lock, so that a loop
  // that is woken often costs its wakers one atomic operation.
  std::atomic<bool> woken_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;     // guarded by mutex_
  bool drain_ = false;    // guarded by mutex_
  bool parked_ = false;   // guarded by mutex_
  bool drained_ = false;  // guarded by mutex_
  bool ended_ = false;    // guarded by mutex_
};

LoopRunner::LoopRunner() : LoopRunner(Options()) {}
LoopRunner::LoopRunner(Options options) : options_(options) {}

LoopRunner::~LoopRunner() {
  if (!supervisor_.joinable()) return;
  const Status ignored = Stop();
  supervisor_.join();
}

void LoopRunner::Add(Loop& loop) {
  std::lock_guard lock(mutex_);
  TM_CHECK(!started_, "a loop was added to a runner that runs");
  workers_.push_back(std::make_unique<Worker>(*this, loop));
}

Status LoopRunner::Start() {
  {
    std::lock_guard lock(mutex_);
    TM_CHECK(!started_, "a runner was started twice");
    started_ = true;
  }
  std::string at = "supervisor";
  try {
    for (auto& worker : workers_) {
      at = worker->name();
      worker->Attach();
    }
    for (auto& worker : workers_) {
      at = worker->name();
      worker->Start();
    }
    at = "supervisor";
    supervisor_ = std::thread([this] { Supervise(); });
  } catch (...) {
    const Status status = Internal("loop \"" + at + "\" could not start: " + WhatIsThrown());
    for (auto& worker : workers_) worker->RequestStop();
    for (auto& worker : workers_) worker->Join();
    std::lock_guard lock(mutex_);
    finished_ = true;
    return result_ = status;
  }
  return Ok();
}

void LoopRunner::RequestDrain(Duration patience) {
  std::lock_guard lock(mutex_);
  drain_requested_ = true;
  drain_deadline_ = std::min(drain_deadline_, After(patience));
  poked_ = true;
  changed_.notify_all();
}

void LoopRunner::RequestStop() {
  std::lock_guard lock(mutex_);
  stop_requested_ = true;
  poked_ = true;
  changed_.notify_all();
}

bool LoopRunner::WaitFor(Duration limit) {
  std::unique_lock lock(mutex_);
  TM_CHECK(started_, "waiting for a runner that was not started");
  auto finished = [this] { return finished_; };
  const Time until = After(limit);
  if (until != kNever) return changed_.wait_until(lock, until, finished);
  changed_.wait(lock, finished);
  return true;
}

Status LoopRunner::Wait() {
  WaitFor(Duration::max());
  std::lock_guard lock(mutex_);
  return result_;
}

std::vector<LoopUsage> LoopRunner::Usage() const {
  std::vector<LoopUsage> usage;
  for (const auto& worker : workers_) usage.push_back(worker->Usage());
  return usage;
}

void LoopRunner::Poke() {
  std::lock_guard lock(mutex_);
  poked_ = true;
  changed_.notify_all();
}

void LoopRunner::Fail(std::string_view loop, std::string_view what) {
  LogError("a loop failed; stopping the run", {{"loop", loop}, {"error", what}});
  std::lock_guard lock(mutex_);
  if (!failures_.empty()) failures_ += "; ";
  failures_ += "loop \"" + std::string(loop) + "\" failed: " + std::string(what);
  drain_requested_ = true;
  drain_deadline_ = std::min(drain_deadline_, After(options_.failure_patience));
  poked_ = true;
  changed_.notify_all();
}

bool LoopRunner::AllQuiet() {
  // All locks at once: a loop that is quiet can be given work only by one that is not.
  std::vector<std::unique_lock<std::mutex>> locks;
  for (auto& worker : workers_) locks.push_back(worker->Lock());
  return std::all_of(workers_.begin(), workers_.end(), [](auto& w) { return w->Quiet(); });
}

std::string LoopRunner::Unfinished() {
  std::string names;
  for (auto& worker : workers_) {
    const auto lock = worker->Lock();
    if (worker->Drained()) continue;
    names += (names.empty() ? "" : ", ") + worker->name();
  }
  return names;
}

void LoopRunner::Supervise() {
  NameThisThread("supervisor");
  bool told = false;
  bool too_slow = false;
  std::unique_lock lock(mutex_);
  while (!stop_requested_) {
    auto poked = [this] { return poked_; };
    if (drain_deadline_ == kNever) {
      changed_.wait(lock, poked);
    } else {
      changed_.wait_until(lock, drain_deadline_, poked);
    }
    poked_ = false;
    if (stop_requested_ || !drain_requested_) continue;
    const Time deadline = drain_deadline_;
    lock.unlock();
    if (!std::exchange(told, true)) {
      for (auto& worker : workers_) worker->RequestDrain();
    }
    const bool quiet = AllQuiet();
    too_slow = !quiet && Now() >= deadline;
    lock.lock();
    if (quiet || too_slow) break;
  }
  lock.unlock();

  const std::string unfinished = too_slow ? Unfinished() : "";
  for (auto& worker : workers_) worker->RequestStop();
  for (auto& worker : workers_) worker->Join();

  lock.lock();
  if (!failures_.empty()) {
    result_ = Internal(failures_);
  } else if (!unfinished.empty()) {
    result_ = Timeout("not drained in time: " + unfinished);
  }
  finished_ = true;
  changed_.notify_all();
}

}  // namespace tidemill
