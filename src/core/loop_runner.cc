#include "core/loop_runner.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>

#include "core/log.h"
#include "core/metrics.h"
#include "core/threads.h"

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
    MutexLock lock(mutex_);
    changed_.NotifyOne();
  }

  void RequestDrain() {
    MutexLock lock(mutex_);
    drain_ = true;
    changed_.NotifyOne();
  }

  void RequestStop() {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyOne();
  }

  Mutex& mutex() TM_RETURN_CAPABILITY(mutex_) { return mutex_; }
  // Nothing is held, under way or waiting to be seen.
  bool Quiet() const TM_REQUIRES(mutex_) {
    return ended_ || (drained_ && parked_ && !woken_.load());
  }
  bool Drained() const TM_REQUIRES(mutex_) { return ended_ || drained_; }

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
      MutexLock lock(mutex_);
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
    MutexLock lock(mutex_);
    auto due = [this]()
                   TM_REQUIRES(mutex_) { return stop_ || woken_.load() || (drain_ && !draining_); };
    parked_ = true;
    if (drained_ && !due()) runner_.Poke();
    if (next_ == kNever) {
      changed_.Wait(lock, due);
    } else if (next_ > Now()) {
      changed_.WaitUntil(lock, next_, due);
    }
    parked_ = false;
    draining_ = drain_;
    return !stop_;
  }

  void SetDrained(bool drained) {
    MutexLock lock(mutex_);
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
  Mutex mutex_;
  CondVar changed_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  bool drain_ TM_GUARDED_BY(mutex_) = false;
  bool parked_ TM_GUARDED_BY(mutex_) = false;
  bool drained_ TM_GUARDED_BY(mutex_) = false;
  bool ended_ TM_GUARDED_BY(mutex_) = false;
};

LoopRunner::LoopRunner() : LoopRunner(Options()) {}
LoopRunner::LoopRunner(Options options) : options_(options) {}

LoopRunner::~LoopRunner() {
  if (!supervisor_.joinable()) return;
  const Status ignored = Stop();
  supervisor_.join();
}

void LoopRunner::Add(Loop& loop) {
  MutexLock lock(mutex_);
  TM_CHECK(!started_, "a loop was added to a runner that runs");
  workers_.push_back(std::make_unique<Worker>(*this, loop));
}

Status LoopRunner::Start() {
  {
    MutexLock lock(mutex_);
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
    MutexLock lock(mutex_);
    finished_ = true;
    return result_ = status;
  }
  return Ok();
}

void LoopRunner::RequestDrain(Duration patience) {
  MutexLock lock(mutex_);
  drain_requested_ = true;
  drain_deadline_ = std::min(drain_deadline_, After(patience));
  poked_ = true;
  changed_.NotifyAll();
}

void LoopRunner::RequestStop() {
  MutexLock lock(mutex_);
  stop_requested_ = true;
  poked_ = true;
  changed_.NotifyAll();
}

bool LoopRunner::WaitFor(Duration limit) {
  MutexLock lock(mutex_);
  TM_CHECK(started_, "waiting for a runner that was not started");
  auto finished = [this]() TM_REQUIRES(mutex_) { return finished_; };
  const Time until = After(limit);
  if (until != kNever) return changed_.WaitUntil(lock, until, finished);
  changed_.Wait(lock, finished);
  return true;
}

Status LoopRunner::Wait() {
  WaitFor(Duration::max());
  MutexLock lock(mutex_);
  return result_;
}

std::vector<LoopUsage> LoopRunner::Usage() const {
  std::vector<LoopUsage> usage;
  for (const auto& worker : workers_) usage.push_back(worker->Usage());
  return usage;
}

void LoopRunner::Poke() {
  MutexLock lock(mutex_);
  poked_ = true;
  changed_.NotifyAll();
}

void LoopRunner::Fail(std::string_view loop, std::string_view what) {
  LogError("a loop failed; stopping the run", {{"loop", loop}, {"error", what}});
  MutexLock lock(mutex_);
  if (!failures_.empty()) failures_ += "; ";
  failures_ += "loop \"" + std::string(loop) + "\" failed: " + std::string(what);
  drain_requested_ = true;
  drain_deadline_ = std::min(drain_deadline_, After(options_.failure_patience));
  poked_ = true;
  changed_.NotifyAll();
}

// All locks at once: a loop that is quiet can be given work only by one that is not. How many they
// are is known only when it runs, which the analysis cannot follow.
bool LoopRunner::AllQuiet() TM_NO_THREAD_SAFETY_ANALYSIS {
  for (auto& worker : workers_) worker->mutex().Lock();
  bool quiet = true;
  for (auto& worker : workers_) quiet = quiet && worker->Quiet();
  for (auto& worker : workers_) worker->mutex().Unlock();
  return quiet;
}

std::string LoopRunner::Unfinished() {
  std::string names;
  for (auto& worker : workers_) {
    MutexLock lock(worker->mutex());
    if (worker->Drained()) continue;
    names += (names.empty() ? "" : ", ") + worker->name();
  }
  return names;
}

void LoopRunner::Supervise() {
  NameThisThread("supervisor");
  bool told = false;
  bool too_slow = false;
  MutexLock lock(mutex_);
  while (!stop_requested_) {
    auto poked = [this]() TM_REQUIRES(mutex_) { return poked_; };
    if (drain_deadline_ == kNever) {
      changed_.Wait(lock, poked);
    } else {
      changed_.WaitUntil(lock, drain_deadline_, poked);
    }
    poked_ = false;
    if (stop_requested_ || !drain_requested_) continue;
    const Time deadline = drain_deadline_;
    lock.Unlock();
    if (!std::exchange(told, true)) {
      for (auto& worker : workers_) worker->RequestDrain();
    }
    const bool quiet = AllQuiet();
    too_slow = !quiet && Now() >= deadline;
    lock.Lock();
    if (quiet || too_slow) break;
  }
  lock.Unlock();

  const std::string unfinished = too_slow ? Unfinished() : "";
  for (auto& worker : workers_) worker->RequestStop();
  for (auto& worker : workers_) worker->Join();

  lock.Lock();
  if (!failures_.empty()) {
    result_ = Internal(failures_);
  } else if (!unfinished.empty()) {
    result_ = Timeout("not drained in time: " + unfinished);
  }
  finished_ = true;
  changed_.NotifyAll();
}

}  // namespace tidemill
