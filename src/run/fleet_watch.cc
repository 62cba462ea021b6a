#include "run/fleet_watch.h"

#include <algorithm>
#include <utility>

#include "bus/broker.h"
#include "core/log.h"
#include "run/fleet_account.h"

namespace tidemill {
namespace {

double NumberOf(const v1::Heartbeat& beat, const char* name) {
  const auto found = beat.numbers().find(name);
  return found == beat.numbers().end() ? 0 : std::max(0.0, found->second);
}

}  // namespace

FleetWatch::FleetWatch(std::string url, std::string run)
    : url_(std::move(url)), run_(std::move(run)) {
  if (const Status read = Read(); !read.ok()) {
    LogWarn("the fleet has not been read yet", {{"why", read.message()}});
  }
  thread_ = std::thread([this] { Run(); });
}

FleetWatch::~FleetWatch() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void FleetWatch::Run() {
  MutexLock lock(mutex_);
  while (!changed_.WaitFor(lock, kBeatEvery, [this]() TM_REQUIRES(mutex_) { return stop_; })) {
    lock.Unlock();
    if (const Status read = Read(); !read.ok()) {
      LogEvery(std::chrono::minutes(1), "fleet watch", LogLevel::kWarn, "cannot read the fleet",
               {{"why", read.message()}});
    }
    lock.Lock();
  }
}

Status FleetWatch::Read() {
  if (inspector_ == nullptr) {
    TM_ASSIGN_OR_RETURN(inspector_, ConnectInspector(url_, std::chrono::seconds(2)));
  }
  TM_ASSIGN_OR_RETURN(RosterTotals totals, inspector_->Totals(run_));
  TM_ASSIGN_OR_RETURN(std::vector<RosterEntry> workers, inspector_->Workers(run_));
  MutexLock lock(mutex_);
  totals_ = std::move(totals);
  workers_ = std::move(workers);
  busy_.Take(totals_, workers_);
  return Ok();
}

void FleetWatch::AddTo(RunSnapshot& snapshot) {
  MutexLock lock(mutex_);
  AddWorkersWork(totals_, snapshot);
  for (FleetShare& part : busy_.Shares(snapshot.seconds)) {
    snapshot.busy.push_back({std::move(part.name), part.port, part.share});
  }
  double running = 0, waiting = 0;
  for (const char* role : {"rollout", "tools", "reward"}) snapshot.workers[role] = 0;
  for (const RosterEntry& entry : workers_) {
    if (entry.lost()) {
      ++snapshot.workers_lost;
      continue;
    }
    const auto role = snapshot.workers.find(entry.beat.role());
    if (role != snapshot.workers.end()) ++role->second;
    if (entry.beat.role() != "rollout") continue;
    running += NumberOf(entry.beat, "episodes_running");
    waiting += NumberOf(entry.beat, "waiting_for_tools");
  }
  snapshot.counts["episodes_running"] = static_cast<uint64_t>(running);
  snapshot.counts["waiting_for_tools"] = static_cast<uint64_t>(waiting);
}

}  // namespace tidemill
