#include "scale/launch/keeper_book.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "core/child_process.h"

namespace tidemill {
namespace {

constexpr int kWrongWords = 2;  // the exit status of wrong words or a wrong config

bool IsRedis(const KeptProcess& process) {
  return process.role == "redis";
}

bool ExitedWith(int wait_status, int code) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == code;
}

}  // namespace

KeeperBook::KeeperBook(std::vector<KeptProcess> processes, const KeeperRules& rules)
    : rules_(rules), processes_(std::move(processes)) {
  // A host may have none, of a fleet that is smaller than its hosts.
  if (processes_.empty()) phase_ = FleetPhase::kOver;
}

std::vector<size_t> KeeperBook::ToStart(Time now) const {
  std::vector<size_t> due;
  if (phase_ != FleetPhase::kRunning) return due;
  for (size_t i = 0; i < processes_.size(); ++i) {
    const KeptProcess& process = processes_[i];
    if (process.state == KeptState::kWaiting && process.start_at <= now) due.push_back(i);
  }
  return due;
}

void KeeperBook::Started(size_t index, pid_t pid, Time now) {
  KeptProcess& process = processes_[index];
  process.state = KeptState::kRunning;
  process.pid = pid;
  ++process.starts;
  process.since = now;
  process.told_at = kNever;
  process.killed = false;
}

void KeeperBook::NotStarted(size_t index, const std::string& why, Time now) {
  KeptProcess& process = processes_[index];
  process.since = now;
  process.last_end = "could not be started: " + why;
  AfterEnd(process, now);
}

void KeeperBook::Ended(size_t index, int wait_status, Time now) {
  KeptProcess& process = processes_[index];
  process.pid = 0;
  process.last_end = HowItEnded(wait_status);
  if (phase_ == FleetPhase::kRunning && process.role == "learner" && ExitedWith(wait_status, 0)) {
    process.state = KeptState::kEnded;
    return Finish(now);
  }
  // A worker leaves when the run is done: the learner may be on another host, or not gone yet.
  if (phase_ == FleetPhase::kRunning && !IsRedis(process) && ExitedWith(wait_status, 0)) {
    process.state = KeptState::kEnded;
    return OverIfAllHaveLeft(now);
  }
  if (phase_ == FleetPhase::kRunning && ExitedWith(wait_status, kWrongWords)) {
    return GiveUp(process, now);
  }
  AfterEnd(process, now);
}

void KeeperBook::AfterEnd(KeptProcess& process, Time now) {
  if (phase_ != FleetPhase::kRunning) {
    process.state = KeptState::kEnded;
    return OverIfAllAreGone();
  }
  process.short_lives = now - process.since < rules_.short_life ? process.short_lives + 1 : 0;
  if (process.short_lives >= rules_.short_lives_max) return GiveUp(process, now);
  Duration wait = rules_.backoff_first;
  for (int i = 1; i < process.short_lives && wait < rules_.backoff_max; ++i) wait *= 2;
  process.state = KeptState::kWaiting;
  process.start_at = now + std::min(wait, rules_.backoff_max);
}

void KeeperBook::GiveUp(KeptProcess& process, Time now) {
  process.state = KeptState::kFailed;
  // Without a learner or a bus there is no run. Of the other roles one may be enough.
  const bool needed = process.role == "learner" || IsRedis(process) ||
                      std::none_of(processes_.begin(), processes_.end(), [&](const KeptProcess& p) {
                        return p.role == process.role && p.state != KeptState::kFailed;
                      });
  if (needed) Stop(process.name + " " + process.last_end, now);
}

void KeeperBook::Finish(Time now) {
  phase_ = FleetPhase::kFinishing;
  finishing_since_ = now;
  for (KeptProcess& process : processes_) {
    if (process.state == KeptState::kWaiting) process.state = KeptState::kEnded;
  }
  OverIfAllAreGone();
}

void KeeperBook::Stop(const std::string& why, Time now) {
  if (phase_ == FleetPhase::kStopping || phase_ == FleetPhase::kOver) return;
  if (phase_ == FleetPhase::kRunning) Finish(now);
  if (phase_ == FleetPhase::kOver) {
    failure_ = why;
    return;
  }
  phase_ = FleetPhase::kStopping;
  failure_ = why;
}

bool KeeperBook::OthersAreGone() const {
  return std::none_of(processes_.begin(), processes_.end(), [](const KeptProcess& process) {
    return process.state == KeptState::kRunning && !IsRedis(process);
  });
}

void KeeperBook::OverIfAllHaveLeft(Time now) {
  const bool left = std::all_of(processes_.begin(), processes_.end(), [](const KeptProcess& p) {
    return IsRedis(p) || p.state == KeptState::kEnded || p.state == KeptState::kFailed;
  });
  if (left) Finish(now);
}

void KeeperBook::OverIfAllAreGone() {
  const bool gone = std::none_of(processes_.begin(), processes_.end(), [](const KeptProcess& p) {
    return p.state == KeptState::kRunning;
  });
  if (gone) phase_ = FleetPhase::kOver;
}

std::vector<KeeperBook::Signal> KeeperBook::TakeSignals(Time now) {
  std::vector<Signal> signals;
  if (phase_ != FleetPhase::kFinishing && phase_ != FleetPhase::kStopping) return signals;
  const bool leave = phase_ == FleetPhase::kStopping || now >= finishing_since_ + rules_.leave;
  for (size_t i = 0; i < processes_.size(); ++i) {
    KeptProcess& process = processes_[i];
    if (process.state != KeptState::kRunning) continue;
    const bool due = IsRedis(process) ? OthersAreGone() : leave;
    if (process.told_at == kNever && due) {
      process.told_at = now;
      signals.push_back({i, SIGTERM});
    } else if (process.told_at != kNever && !process.killed &&
               now >= process.told_at + rules_.stop) {
      process.killed = true;
      signals.push_back({i, SIGKILL});
    }
  }
  return signals;
}

Time KeeperBook::NextTime() const {
  Time next = kNever;
  for (const KeptProcess& process : processes_) {
    if (phase_ == FleetPhase::kRunning && process.state == KeptState::kWaiting) {
      next = std::min(next, process.start_at);
    }
    if (process.state == KeptState::kRunning && process.told_at != kNever && !process.killed) {
      next = std::min(next, process.told_at + rules_.stop);
    }
  }
  const bool waits = std::any_of(processes_.begin(), processes_.end(), [](const KeptProcess& p) {
    return p.state == KeptState::kRunning && p.told_at == kNever && !IsRedis(p);
  });
  if (phase_ == FleetPhase::kFinishing && waits)
    next = std::min(next, finishing_since_ + rules_.leave);
  return next;
}

}  // namespace tidemill
