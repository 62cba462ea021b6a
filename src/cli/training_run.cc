#include "cli/training_run.h"

#include <algorithm>

#include "bus/redis/redis_bus.h"
#include "cli/training_parts.h"
#include "core/topics.h"

namespace tidemill {

Result<std::unique_ptr<TrainingRun>> TrainingRun::Make(const RunConfig& config,
                                                       RunDirectory& directory, RunJournal& journal,
                                                       const Options& options) {
  auto parts = std::make_unique<Parts>();
  parts->config = config;
  parts->options = options;
  parts->journal = &journal;
  TM_RETURN_IF_ERROR(parts->LoadInputs());
  TM_RETURN_IF_ERROR(parts->OpenStore(directory));
  TM_RETURN_IF_ERROR(parts->MakeBus(directory));
  TM_RETURN_IF_ERROR(parts->MakePorts());
  // With a fleet only its engines know how much fits.
  if (parts->engine) TM_RETURN_IF_ERROR(parts->CheckPrompts());
  TM_RETURN_IF_ERROR(parts->MakeLoops(directory));
  return std::unique_ptr<TrainingRun>(new TrainingRun(std::move(parts)));
}

TrainingRun::TrainingRun(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TrainingRun::~TrainingRun() {
  RedisBus* const fleet = parts_->options.fleet;
  if (fleet == nullptr) return;
  fleet->UnsubscribeAll();
  (void)fleet->Remove(InboxTopic(parts_->name, "replay"));  // nobody else reads it
}

Status TrainingRun::Start() {
  parts_->started = parts_->clock.Now();
  const Status status = parts_->runner->Start();
  parts_->running = status.ok();
  return status;
}

void TrainingRun::FinishSoon() {
  if (parts_->learner) parts_->learner->FinishSoon();
}
void TrainingRun::Interrupt() {
  parts_->dispatcher->IssueNoMore();  // before the learner says that it took its last step
  FinishSoon();
}

bool TrainingRun::Done() const {
  return parts_->dispatcher->counters().done;
}
bool TrainingRun::LearnerDone() const {
  return !parts_->learner || parts_->learner->counters().done;
}
bool TrainingRun::Failed() {
  return parts_->runner->WaitFor(Duration(0));
}
int TrainingRun::RanksLost() const {
  return parts_->trainer ? parts_->trainer->ranks_lost() : 0;
}
Status TrainingRun::Stop() {
  return parts_->runner->Drain(std::chrono::seconds(20));
}
const std::vector<std::string>& TrainingRun::warnings() const {
  return parts_->warnings;
}
std::string TrainingRun::StuckLoop() const {
  return tidemill::StuckLoop(parts_->runner->Usage());
}
WeightPublisher* TrainingRun::publisher() {
  return parts_->publisher;
}
const std::string& TrainingRun::bus_name() const {
  return parts_->name;
}
uint64_t TrainingRun::start_version() const {
  return parts_->start_version;
}

RunSnapshot TrainingRun::Snapshot() const {
  const Parts& p = *parts_;
  const Time now = p.clock.Now();
  RunSnapshot s;
  s.seconds = std::max(1e-9, Seconds(now - p.started));
  s.epoch = p.dispatcher->counters().epoch;
  s.put_off = p.dispatcher->counters().put_off;
  const ReplayCounters& replay = p.replay->counters();
  s.episodes_running = p.dispatcher->counters().running;
  s.episodes_finished = replay.received;
  s.episodes_stored = replay.stored;
  s.waiting_verdicts = replay.waiting_verdicts;
  s.ready_episodes = replay.ready_episodes;
  s.scored = replay.scored, s.solved = replay.solved, s.stale = replay.stale;
  s.too_old = replay.too_old, s.zero_variance = replay.zero_variance;
  s.evicted = replay.evicted, s.rescored = replay.rescored;
  s.duplicates = replay.duplicates, s.used = replay.used;
  if (p.rollout) p.AddWork(s);
  if (p.learner) {
    s.steps = p.learner->counters().steps;
    s.version = p.learner->counters().version;
    s.trained_tokens = p.learner->counters().tokens;
  }
  for (const LoopUsage& usage : p.runner->Usage()) {
    s.busy.push_back({usage.name, false, Seconds(usage.busy) / s.seconds});
  }
  const auto port = [&](const char* name, Duration busy, int slots) {
    s.busy.push_back({name, true, Seconds(busy) / s.seconds / std::max(1, slots)});
  };
  if (p.engine) port("engine", p.engine->busy().Busy(now), 1);
  // Tool calls and gradings have as many slots each.
  if (p.tools) port("boxes", p.tools->Busy(now), 2 * p.threads.boxes);
  port("store", p.store->busy().Busy(now), 1);
  if (p.trainer) port("trainer", p.trainer->busy().Busy(now), 1);
  for (std::string_view topic :
       {kGroupsTopic, kToolsCompileTopic, kToolsTestsTopic, kToolsLintTopic, kToolsFilesTopic,
        kToolsCommandTopic, kToolsGradeTopic, kScoreTopic, kTrajectoriesTopic, kBatchRequestsTopic,
        kDispatchTopic}) {
    const Result<TopicDepth> depth = p.bus->Depth(topic);
    if (!depth.ok()) continue;
    s.depths.emplace_back(topic, depth->ready);
    s.dead_letters += depth->dead;
  }
  return s;
}

// What only those know who do the work.
void TrainingRun::Parts::AddWork(RunSnapshot& s) const {
  const RolloutCounters& from = rollout->counters();
  s.episodes_running = from.episodes_running;
  s.episodes_finished = from.finished;
  s.waiting_for_tools = from.waiting_for_tools;
  s.generated_tokens = from.generated_tokens;
  s.tool_calls = from.tool_calls;
  s.tool_retries = from.tool_retries;
  s.calls_lost = from.calls_lost;
  s.groups_lost = from.groups_lost;
  s.skipped = from.skipped;
  s.reward_retries = reward->counters().retries;
  s.unscorable = reward->counters().unscorable;
  s.second_looks = reward->counters().second_looks;
  s.repeated_literals = reward->counters().repeated_literals;
  const ToolCounters& calls = tool_loop->counters();
  s.gradings = calls.gradings;
  s.unavailable = calls.unavailable;
  s.cache_hits = calls.cache_hits + calls.joined;
  s.cache_misses = calls.cache_misses - calls.joined;
  s.tool_commands = calls.cache_misses;
  const double commands = std::max<double>(1, static_cast<double>(calls.cache_misses));
  s.tool_ms = static_cast<double>(calls.wall_us) / 1e3 / commands;
  s.queue_ms = static_cast<double>(calls.queue_us) / 1e3 / commands;
}

}  // namespace tidemill
