#include "scale/autoscaler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/log.h"
#include "core/topics.h"

namespace tidemill {

Autoscaler::Autoscaler(FleetPort& fleet, WorkerBackend* backend, AutoscalerOptions options)
    : fleet_(fleet),
      backend_(backend),
      options_(std::move(options)),
      rule_(options_.rule),
      service_(options_.first_service) {}

void Autoscaler::Attach(Waker& waker) {
  fleet_.reports().Attach(waker);
  if (backend_ != nullptr) backend_->events().Attach(waker);
}

Time Autoscaler::Step(Time now) {
  TakeEvents(now);
  TakeReports(now);
  if (asked_ || draining_) return kNever;
  if (now < ask_at_) return ask_at_;
  asked_ = true;
  ask_at_ = now + options_.period;
  fleet_.Ask();
  return kNever;
}

void Autoscaler::TakeEvents(Time now) {
  if (backend_ == nullptr) return;
  for (BackendEvent& event : backend_->events().TakeAll()) {
    const auto found = own_.find(event.id);
    TM_CHECK(found != own_.end(), "a worker ended that was not started");
    Own& own = found->second;
    if (!event.ended) {
      own.name = event.name;
      own.since = now;
      continue;
    }
    if (own.draining) {
      ++counters_.drained;
    } else {
      ++counters_.failed;
      failures_ = now - own.since < options_.short_life ? failures_ + 1 : 1;
      const Duration pause = std::chrono::seconds(1) * (1 << std::min(failures_ - 1, 10));
      start_at_ = now + std::min<Duration>(pause, options_.backoff_max);
      LogWarn("a tool worker exited unexpectedly",
              {{"worker", own.name}, {"why", event.status.message()}});
    }
    own_.erase(found);
  }
  counters_.own = OwnHere();
  counters_.draining = own_.size() - OwnHere();
}

void Autoscaler::TakeReports(Time now) {
  for (const FleetReport& report : fleet_.reports().TakeAll()) {
    asked_ = false;
    if (!report.status.ok()) {
      LogEvery(std::chrono::seconds(30), "autoscaler", LogLevel::kWarn,
               "cannot read the queues; keeping the number of workers",
               {{"why", report.status.message()}});
      continue;
    }
    if (draining_) continue;
    Observe(report);
    Balance(report, now);
  }
}

void Autoscaler::Observe(const FleetReport& report) {
  std::map<std::string, Seen> seen;
  double busy = 0, completed = 0;
  for (const ToolWorkerState& worker : report.workers) {
    const Seen state = {worker.busy_seconds, worker.completed};
    if (const auto before = seen_.find(worker.name); before != seen_.end()) {
      busy += std::max(0.0, state.busy_seconds - before->second.busy_seconds);
      completed += std::max(0.0, state.completed - before->second.completed);
    }
    seen[worker.name] = state;
  }
  seen_ = std::move(seen);
  if (completed < 1) return;
  // A quarter of the new: a single long call should not start a crowd.
  service_ = std::chrono::duration_cast<Duration>(
      service_ * 0.75 + std::chrono::duration<double>(busy / completed) * 0.25);
}

void Autoscaler::Balance(const FleetReport& report, Time now) {
  LaneLoad agents, gradings;
  agents.slots = gradings.slots = 0;
  std::set<std::string> ours;
  for (const auto& [id, own] : own_) ours.insert(own.name);
  size_t foreign = 0;
  for (const ToolWorkerState& worker : report.workers) {
    if (!worker.leaving && ours.count(worker.name) == 0) ++foreign;
    // The smallest counts, where workers differ.
    const auto least = [](size_t a, size_t b) { return a == 0 ? b : std::min(a, b); };
    agents.slots = least(agents.slots, worker.slots);
    gradings.slots = least(gradings.slots, worker.grade_slots);
  }
  counters_.ready = 0;
  counters_.leased = 0;
  for (const TopicLoad& topic : report.topics) {
    LaneLoad& lane = topic.topic == kToolsGradeTopic ? gradings : agents;
    lane.ready += topic.ready;
    lane.leased += topic.leased;
    counters_.ready += topic.ready;
    counters_.leased += topic.leased;
  }
  const LaneLoad lanes[] = {agents, gradings};
  const size_t own = OwnHere();
  // Advice is about what would be there if it had been followed.
  const size_t have = backend_ == nullptr ? foreign : own + foreign;
  const size_t wanted = rule_.Decide(now, lanes, service_, have);
  counters_.wanted = wanted;
  Publish(foreign);
  if (backend_ == nullptr) return;
  const size_t wanted_own = wanted - std::min(wanted, foreign);
  if (wanted_own < own) DrainNewest(own - wanted_own);
  if (now < start_at_) return;
  for (size_t i = own; i < wanted_own; ++i) {
    const uint64_t id = next_id_++;
    own_[id] = {.name = "", .since = now};
    ++counters_.started;
    backend_->Start(id);
  }
  Publish(foreign);
}

void Autoscaler::DrainNewest(size_t count) {
  for (auto it = own_.rbegin(); it != own_.rend() && count > 0; ++it) {
    if (it->second.draining) continue;
    it->second.draining = true;
    backend_->Drain(it->first);
    --count;
  }
}

void Autoscaler::Drain() {
  draining_ = true;
  DrainNewest(own_.size());
}

size_t Autoscaler::OwnHere() const {
  return static_cast<size_t>(std::count_if(
      own_.begin(), own_.end(), [](const auto& entry) { return !entry.second.draining; }));
}

void Autoscaler::Publish(size_t foreign) {
  counters_.own = OwnHere();
  counters_.draining = own_.size() - OwnHere();
  counters_.foreign = foreign;
  counters_.service_us = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(service_).count());
}

}  // namespace tidemill
