#include "run/run.h"

#include <algorithm>

#include "core/metrics.h"
#include "core/topics.h"

namespace tidemill {
Run::Run(std::unique_ptr<LoopRunner> runner, std::unique_ptr<Process> process, Loops loops)
    : runner_(std::move(runner)), process_(std::move(process)), loops_(std::move(loops)) {
  for (Loop* loop : loops_.all()) runner_->Add(*loop);
  if (process_->request.metrics == nullptr) return;
  process_->request.metrics->AddSource([this](MetricSink& sink) {
    for (const CounterSet* set : loops_.counters()) SinkCounters(*set, sink);
    SinkUsage(runner_->Usage(), sink);
    for (const auto& host : process_->hosts()) host->Sink(sink);
  });
}

Run::~Run() {
  if (running_) (void)runner_->Stop();
}

Status Run::Start() {
  started_ = process_->clock.Now();
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

std::vector<PortUse> Run::PortUses() const {
  const Time now = process_->clock.Now();
  std::vector<PortUse> uses;
  for (const auto& host : process_->hosts()) {
    for (PortUse& use : host->Usage(now)) uses.push_back(std::move(use));
  }
  return uses;
}

Status Run::Watch() {
  for (const auto& host : process_->hosts()) TM_RETURN_IF_ERROR(host->Watch());
  return Ok();
}

RunSnapshot Run::Snapshot() const {
  RunSnapshot s;
  s.seconds = std::max(1e-9, Seconds(age()));
  for (const CounterSet* set : loops_.counters()) s.Add(*set);
  for (const auto& host : process_->hosts()) {
    for (const CounterSet* set : host->counters()) s.Add(*set);
  }
  // Where rollout is another process, what the learner's own loops see stands in.
  if (!loops_.rollout && loops_.replay) {
    s.counts["episodes_running"] = s["gate_running"];
    s.counts["episodes_finished"] = s["episodes_received"];
  }
  for (const LoopUsage& usage : runner_->Usage()) {
    s.busy.push_back({usage.name, false, Seconds(usage.busy) / s.seconds});
  }
  for (const PortUse& use : PortUses()) {
    s.busy.push_back({use.name, true, Seconds(use.busy) / s.seconds / std::max(1, use.slots)});
  }
  uint64_t& dead = s.counts["dead_letters"];
  for (const TopicRow& row : kTopics) {
    const Result<TopicDepth> depth = process_->ports.bus->Depth(row.name);
    if (!depth.ok()) continue;
    s.depths.emplace_back(row.name, depth->ready);
    dead += depth->dead;
  }
  return s;
}

}  // namespace tidemill
