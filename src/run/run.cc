#include "run/run.h"

#include <algorithm>

#include "bus/redis/redis_bus.h"
#include "core/metrics.h"
#include "core/topics.h"

namespace tidemill {
Run::Run(std::unique_ptr<LoopRunner> runner, std::unique_ptr<PortHost> host, Loops loops,
         RunStart start, std::vector<std::string> warnings, RedisBus* fleet)
    : runner_(std::move(runner)),
      host_(std::move(host)),
      loops_(std::move(loops)),
      warnings_(std::move(warnings)),
      worker_(std::move(start.worker)),
      start_version_(start.version),
      fleet_(fleet) {
  for (Loop* loop : loops_.all()) runner_->Add(*loop);
  if (start.metrics == nullptr) return;
  start.metrics->AddSource([this](MetricSink& sink) {
    for (const CounterSet* set : loops_.counters()) SinkCounters(*set, sink);
    SinkUsage(runner_->Usage(), sink);
    host_->Sink(sink);
  });
}

Run::~Run() {
  if (running_) (void)runner_->Stop();
  if (fleet_ == nullptr) return;
  fleet_->UnsubscribeAll();
  for (const std::string& topic : host_->own_topics()) (void)fleet_->Remove(topic);
}

Status Run::Start() {
  started_ = host_->ports().clock->Now();
  const Status status = runner_->Start();
  running_ = status.ok();
  return status;
}

void Run::FinishSoon() {
  if (loops_.learner) loops_.learner->FinishSoon();
}
void Run::Interrupt() {
  loops_.dispatcher->IssueNoMore();  // before the learner says that it took its last step
  FinishSoon();
}

bool Run::Done() const {
  return loops_.dispatcher && loops_.dispatcher->counters().done;
}
bool Run::LearnerDone() const {
  return !loops_.learner || loops_.learner->counters().done;
}
bool Run::Ended(Duration limit) {
  return runner_->WaitFor(limit);
}
Status Run::Stop(Duration patience) {
  return runner_->Drain(patience);
}

RunSnapshot Run::Snapshot() const {
  const Ports& ports = host_->ports();
  RunSnapshot s;
  s.seconds = std::max(1e-9, Seconds(age()));
  for (const CounterSet* set : loops_.counters()) s.Add(*set);
  for (const CounterSet* set : host_->counters()) s.Add(*set);
  // Where rollout is another process, what the learner's own loops see stands in.
  if (!loops_.rollout && loops_.replay) {
    s.counts["episodes_running"] = s["gate_running"];
    s.counts["episodes_finished"] = s["episodes_received"];
  }
  for (const LoopUsage& usage : runner_->Usage()) {
    s.busy.push_back({usage.name, false, Seconds(usage.busy) / s.seconds});
  }
  for (const PortHost::Use& use : host_->Usage()) {
    s.busy.push_back({use.name, true, Seconds(use.busy) / s.seconds / std::max(1, use.slots)});
  }
  uint64_t& dead = s.counts["dead_letters"];
  for (const TopicRow& row : kTopics) {
    const Result<TopicDepth> depth = ports.bus->Depth(row.name);
    if (!depth.ok()) continue;
    s.depths.emplace_back(row.name, depth->ready);
    dead += depth->dead;
  }
  return s;
}

}  // namespace tidemill
