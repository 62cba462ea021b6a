#include "cli/training_run.h"

#include <algorithm>

#include "bus/memory/memory_bus.h"
#include "bus/standard_topics.h"
#include "cli/make_scorers.h"
#include "cli/make_trainer.h"
#include "cli/resume_parts.h"
#include "core/random.h"
#include "core/threads.h"
#include "core/topics.h"
#include "learner/learner_loop.h"
#include "policy/tokenizer.h"
#include "policy/torch/model.h"
#include "policy/torch/torch_engine.h"
#include "replay/replay_loop.h"
#include "reward/reward_loop.h"
#include "rollout/dispatcher.h"
#include "rollout/rollout_loop.h"
#include "store/run_db.h"
#include "store/store_thread.h"
#include "tasks/task_file.h"
#include "tools/tool_executor.h"
#include "tools/tool_loop.h"

namespace tidemill {

// In the order they are made; taken down in reverse.
struct TrainingRun::Parts {
  RunConfig config;
  Options options;
  std::vector<std::string> warnings;
  RealClock clock;
  RunJournal* journal = nullptr;
  std::vector<v1::Task> train_tasks, eval_tasks;
  TaskBook book;
  std::optional<Tokenizer> tokenizer;
  std::unique_ptr<AgentProtocol> protocol;
  std::shared_ptr<const PolicyWeights> weights;  // shared: engine and trainer start from the same
  ThreadPlan threads;
  ResumeState resumed;
  uint64_t start_step = 0, start_version = 0;
  int32_t max_context = 0;
  std::string checkpoint;  // gone on from; empty: none

  // Topics and mailboxes wake its loops, so it goes after them.
  std::unique_ptr<LoopRunner> runner;
  std::unique_ptr<BlobStore> blobs;
  std::unique_ptr<StoreThread> store;
  std::vector<std::unique_ptr<StorePort>> clients;
  std::unique_ptr<MemoryBus> bus;
  std::unique_ptr<BusTicker> ticker;
  std::unique_ptr<WeightChannel> channel;
  std::unique_ptr<EngineThread> engine;
  std::unique_ptr<ToolExecutor> tools;
  std::unique_ptr<TrainerThread> trainer;
  std::unique_ptr<CommandPort> scorer_port;

  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<RolloutLoop> rollout;
  std::unique_ptr<ToolLoop> tool_loop;
  std::unique_ptr<RewardLoop> reward;
  std::unique_ptr<ReplayLoop> replay;
  std::unique_ptr<LearnerLoop> learner;
  Time started = Time::min();
  bool running = false;

  ~Parts() {
    if (running) (void)runner->Stop();
  }
  Status LoadInputs();
  Status OpenStore(RunDirectory& directory);
  Status MakePorts(RunDirectory& directory);
  Status CheckPrompts() const;
  Status MakeLoops(RunDirectory& directory);
  DispatcherOptions DispatchOptions() const;
  std::vector<EvalPlan> EvalPlans(const std::string& name) const;
};

namespace {

constexpr size_t kStoreCapacity = 65536;

v1::Sampling MakeSampling(double temperature, uint32_t max_turn_tokens) {
  v1::Sampling sampling;
  sampling.set_temperature(temperature);
  sampling.set_max_turn_tokens(max_turn_tokens);
  return sampling;
}

// The three modes are one machine with other settings of gate, barrier and swap.
int64_t StepsAhead(const RunConfig& config) {
  if (config.run.mode == "sync") return 0;
  if (config.run.mode == "one-step") return 1;
  return config.staleness.max_steps;
}

BufferOptions BufferFrom(const RunConfig& config) {
  BufferOptions buffer;
  buffer.selection = config.replay.selection;
  buffer.priority_exponent = config.replay.priority_exponent;
  buffer.capacity = config.replay.capacity;
  buffer.max_uses = config.replay.max_uses;
  buffer.samples_per_insert = config.replay.samples_per_insert;
  buffer.min_groups = std::max<uint32_t>(1, config.replay.min_groups);
  return buffer;
}

}  // namespace

Status TrainingRun::Parts::LoadInputs() {
  TM_ASSIGN_OR_RETURN(train_tasks, ReadTaskFile(config.tasks.train));
  if (!config.tasks.eval.empty()) {
    TM_ASSIGN_OR_RETURN(eval_tasks, ReadTaskFile(config.tasks.eval));
    if (config.tasks.eval_limit > 0 && eval_tasks.size() > config.tasks.eval_limit) {
      eval_tasks.resize(config.tasks.eval_limit);
    }
  }
  book.Add(train_tasks), book.Add(eval_tasks);
  TM_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Read(config.model.path));
  ProtocolOptions protocol_options;
  protocol_options.system_prompt = config.model.system_prompt;
  std::string warning;
  TM_ASSIGN_OR_RETURN(protocol, NewProtocol(config.model.protocol, *tokenizer, config.model.path,
                                            protocol_options, &warning));
  if (!warning.empty()) warnings.push_back(warning);
  return Ok();
}

Status TrainingRun::Parts::OpenStore(RunDirectory& directory) {
  TM_ASSIGN_OR_RETURN(blobs, OpenFileBlobs(directory.blobs_path()));
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunDb> db, RunDb::Open(directory.db_path(), clock));
  if (options.resume) {
    TM_ASSIGN_OR_RETURN(ResumeState before, db->LoadForResume(config.replay.max_uses));
    start_step = before.checkpoint ? before.checkpoint->step : 0;
    TM_RETURN_IF_ERROR(db->ResumeFrom(start_step));
    TM_ASSIGN_OR_RETURN(resumed, db->LoadForResume(config.replay.max_uses));
  }
  if (start_step > 0) checkpoint = resumed.checkpoint->path;
  TM_ASSIGN_OR_RETURN(weights, LoadStartWeights(config, checkpoint));
  // The weights a run starts (or goes on) with are a version of their own.
  const StoreOp reserve = ReserveVersion{start_step};
  const StoreOp* ops[] = {&reserve};
  TM_ASSIGN_OR_RETURN(auto outcomes, db->Apply(ops));
  TM_RETURN_IF_ERROR(outcomes[0].status);
  start_version = outcomes[0].version;
  store = std::make_unique<StoreThread>(std::move(db), clock);
  for (int i = 0; i < 3; ++i) clients.push_back(store->NewClient(kStoreCapacity));
  return Ok();
}

Status TrainingRun::Parts::MakePorts(RunDirectory&) {
  ThreadSettings settings;
  settings.engine = static_cast<int>(config.threads.engine);
  settings.trainer = static_cast<int>(config.threads.trainer);
  settings.boxes = static_cast<int>(config.tools.slots);
  threads = PlanThreads(settings, AvailableCores());

  bus = std::make_unique<MemoryBus>(clock);
  TM_RETURN_IF_ERROR(
      OpenStandardTopics(*bus, {.lease = config.bus.lease, .capacity = config.bus.capacity}));
  ticker = std::make_unique<BusTicker>(*bus);
  channel = NewLocalWeightChannel();

  EngineOptions engine_options;
  engine_options.max_context = static_cast<int32_t>(config.rollout.max_context);
  engine_options.max_running = 1024;
  engine_options.prefill_chunk = static_cast<int32_t>(config.rollout.prefill_chunk);
  engine_options.cache_bytes = uint64_t{config.rollout.cache_mb} << 20;
  engine_options.threads = threads.engine;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Engine> made,
                      NewEngine(weights, start_version, engine_options));
  max_context = made->max_context();
  EngineThreadOptions thread_options;
  thread_options.cache_on_swap =
      config.rollout.cache_on_swap == "keep" ? CacheOnSwap::kKeep : CacheOnSwap::kRebuild;
  engine = std::make_unique<EngineThread>(std::move(made), *channel, clock, thread_options);

  ToolExecutorOptions tool_options;
  tool_options.tools.limits.wall = milliseconds(config.tools.wall_ms);
  tool_options.tools.limits.cpu = milliseconds(config.tools.cpu_ms);
  tool_options.tools.limits.memory_bytes = uint64_t{config.tools.memory_mb} << 20;
  tool_options.tools.limits.processes = config.tools.processes;
  tool_options.tools.limits.output_bytes = uint64_t{config.tools.output_kb} << 10;
  tool_options.tools.limits.disk_bytes = uint64_t{config.tools.disk_mb} << 20;
  tool_options.metrics = options.metrics;
  tool_options.slots = static_cast<size_t>(threads.boxes);
  tool_options.grade_slots = static_cast<size_t>(threads.boxes);
  TM_ASSIGN_OR_RETURN(tools, ToolExecutor::Create(std::move(tool_options), blobs.get(), clock));
  if (options.train) {
    TM_ASSIGN_OR_RETURN(trainer, MakeTrainer(config,
                                             {.weights = weights,
                                              .checkpoint = checkpoint,
                                              .version = start_version,
                                              .step = start_step,
                                              .threads = threads.trainer},
                                             *channel, clock));
  }
  return Ok();
}

std::vector<EvalPlan> TrainingRun::Parts::EvalPlans(const std::string& name) const {
  EvalPlan plan;
  plan.name = options.eval_prefix + name;
  plan.samples = config.eval.samples;
  plan.max_turns = config.eval.max_turns > 0 ? config.eval.max_turns : config.rollout.max_turns;
  plan.sampling = MakeSampling(config.eval.temperature, config.rollout.max_turn_tokens);
  std::vector<EvalPlan> plans = {plan};
  if (config.eval.greedy && config.eval.temperature > 0) {
    EvalPlan greedy = plan;
    greedy.name += "-greedy";
    greedy.samples = 1;
    greedy.sampling.set_temperature(0);
    plans.push_back(greedy);
  }
  if (config.eval.also_max_turns > 0 && config.eval.also_max_turns != plan.max_turns) {
    EvalPlan also = plan;
    also.max_turns = config.eval.also_max_turns;
    also.name += "-turns-" + std::to_string(also.max_turns);
    plans.push_back(also);
  }
  return plans;
}

// A prompt that fills the context leaves nothing to write: its episodes would all be given up.
Status TrainingRun::Parts::CheckPrompts() const {
  for (const auto& [key, tasks] :
       {std::pair{"tasks.train", &train_tasks}, std::pair{"tasks.eval", &eval_tasks}}) {
    size_t too_long = 0;
    std::string first;
    for (const v1::Task& task : *tasks) {
      const size_t tokens = protocol->Prompt(task).size();
      if (tokens < static_cast<size_t>(max_context)) continue;
      if (++too_long == 1) first = task.id() + " (" + std::to_string(tokens) + " tokens)";
    }
    if (too_long == 0) continue;
    return Invalid(std::string(key) + ": " + std::to_string(too_long) + " of " +
                   std::to_string(tasks->size()) + " prompts do not fit into the context of " +
                   std::to_string(max_context) + " tokens, the first " + first +
                   "; take them out, shorten them or their tools, or use a larger context");
  }
  return Ok();
}

DispatcherOptions TrainingRun::Parts::DispatchOptions() const {
  DispatcherOptions dispatch;
  dispatch.gate = {.max_in_flight = config.rollout.max_in_flight,
                   .batch_episodes = config.batch_episodes(),
                   .staleness_max_steps = StepsAhead(config),
                   .uses_per_episode = UsesPaid(BufferFrom(config))};
  dispatch.group_size = config.rollout.group_size;
  dispatch.seed = config.run.seed;
  dispatch.sampling = MakeSampling(config.rollout.temperature, config.rollout.max_turn_tokens);
  dispatch.max_turns = config.rollout.max_turns;
  dispatch.train = options.train;
  dispatch.eval_in_flight = std::max(config.rollout.max_in_flight, config.eval.samples);
  if (config.eval.before && start_step == 0) dispatch.eval_before = EvalPlans("before");
  if (config.eval.after) dispatch.eval_after = EvalPlans("after");
  dispatch.eval_during = EvalPlans("during");
  dispatch.eval_during.resize(std::min<size_t>(1, dispatch.eval_during.size()));
  dispatch.eval_every_steps = config.eval.every_steps;
  dispatch.steps_done = start_step;
  AddResumed(resumed, dispatch);
  return dispatch;
}

Status TrainingRun::Parts::MakeLoops(RunDirectory& directory) {
  const Duration lease_period = config.bus.lease / 3;
  TM_ASSIGN_OR_RETURN(TaskOrder order,
                      TaskOrder::Make(train_tasks, config.tasks.weights, config.run.seed));
  if (!resumed.cursor.empty()) TM_RETURN_IF_ERROR(order.Seek(resumed.cursor));
  dispatcher = std::make_unique<Dispatcher>(*bus, *clients[0], clock, *journal, train_tasks,
                                            eval_tasks, std::move(order), DispatchOptions());

  RolloutOptions rollout_options;
  rollout_options.max_episodes = config.rollout.max_in_flight * 2;
  rollout_options.max_context = max_context;
  rollout_options.limits.observation_tokens = config.rollout.observation_tokens;
  rollout_options.limits.calls_per_turn = config.rollout.calls_per_turn;
  rollout_options.limits.tool_retries = config.rollout.tool_retries;
  rollout_options.limits.stale_on_unavailable = config.rollout.on_unavailable == "stale";
  rollout_options.lease_period = lease_period;
  rollout = std::make_unique<RolloutLoop>(*bus, *engine, *protocol, clock, rollout_options);

  ToolLoopOptions tool_options;
  tool_options.lease_period = lease_period;
  tool_options.cache_results = config.tools.cache;
  tool_options.wait = {config.tools.wait, config.tools.wait_tail};
  tool_loop = std::make_unique<ToolLoop>(*bus, *tools, clock, tool_options);

  TM_ASSIGN_OR_RETURN(RewardParts scoring, MakeReward(config));
  scorer_port = std::move(scoring.port);
  reward = std::make_unique<RewardLoop>(*bus, clock, std::move(scoring.scorers), scoring.options,
                                        scorer_port.get());

  ReplayOptions replay_options;
  replay_options.staleness = {config.staleness.hard_max_steps, config.staleness.max_minutes,
                              config.staleness.too_old == "mask"};
  replay_options.buffer = BufferFrom(config);
  replay_options.buffer.seed = MixHash(config.run.seed, start_step);
  TM_RETURN_IF_ERROR(GroupBuffer::Make(replay_options.buffer).status().WithContext("replay"));
  replay_options.rescore_groups = config.replay.rescore_groups;
  replay_options.scorer_versions = scoring.versions;
  replay_options.drop_zero_variance = config.replay.drop_zero_variance;
  replay_options.max_turn_tokens = config.rollout.max_turn_tokens;
  replay_options.store_capacity = kStoreCapacity;
  replay_options.lease_period = lease_period;
  replay_options.versions = {resumed.versions.begin(), resumed.versions.end()};
  replay_options.versions[start_version] = start_step;
  replay = std::make_unique<ReplayLoop>(*bus, *clients[1], clock, *journal, book, replay_options,
                                        TakeSamples(resumed));

  runner = std::make_unique<LoopRunner>();
  if (options.train) {
    LearnerOptions learner_options;
    learner_options.max_steps = config.run.steps;
    learner_options.batch_episodes = config.batch_episodes();
    learner_options.prefetch = config.run.mode == "async";
    learner_options.checkpoint_every_steps = config.learner.checkpoint_every_steps;
    learner_options.checkpoint_folder = directory.checkpoints_path();
    learner_options.steps_done = start_step;
    learner_options.version = start_version;
    learner = std::make_unique<LearnerLoop>(*bus, *clients[2], *trainer, clock, *journal,
                                            learner_options);
    runner->Add(*learner);
  }
  runner->Add(*dispatcher), runner->Add(*rollout), runner->Add(*tool_loop);
  runner->Add(*reward), runner->Add(*replay);
  return Ok();
}

Result<std::unique_ptr<TrainingRun>> TrainingRun::Make(const RunConfig& config,
                                                       RunDirectory& directory, RunJournal& journal,
                                                       const Options& options) {
  auto parts = std::make_unique<Parts>();
  parts->config = config;
  parts->options = options;
  parts->journal = &journal;
  TM_RETURN_IF_ERROR(parts->LoadInputs());
  TM_RETURN_IF_ERROR(parts->OpenStore(directory));
  TM_RETURN_IF_ERROR(parts->MakePorts(directory));
  TM_RETURN_IF_ERROR(parts->CheckPrompts());
  TM_RETURN_IF_ERROR(parts->MakeLoops(directory));
  return std::unique_ptr<TrainingRun>(new TrainingRun(std::move(parts)));
}

TrainingRun::TrainingRun(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TrainingRun::~TrainingRun() = default;

Status TrainingRun::Start() {
  parts_->started = parts_->clock.Now();
  const Status status = parts_->runner->Start();
  parts_->running = status.ok();
  return status;
}

void TrainingRun::FinishSoon() {
  if (parts_->learner) parts_->learner->FinishSoon();
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
Status TrainingRun::Stop() {
  return parts_->runner->Drain(std::chrono::seconds(20));
}
const std::vector<std::string>& TrainingRun::warnings() const {
  return parts_->warnings;
}
uint64_t TrainingRun::resumed_from_step() const {
  return parts_->start_step;
}

RunSnapshot TrainingRun::Snapshot() const {
  const Parts& p = *parts_;
  const Time now = p.clock.Now();
  RunSnapshot s;
  s.seconds = std::max(1e-9, Seconds(now - p.started));
  const DispatcherCounters& dispatch = p.dispatcher->counters();
  s.epoch = dispatch.epoch;
  const RolloutCounters& rollout = p.rollout->counters();
  s.episodes_running = rollout.episodes_running;
  s.episodes_finished = rollout.finished;
  s.waiting_for_tools = rollout.waiting_for_tools;
  s.generated_tokens = rollout.generated_tokens;
  s.tool_calls = rollout.tool_calls;
  s.tool_retries = rollout.tool_retries;
  s.skipped = rollout.skipped;
  s.calls_lost = rollout.calls_lost;
  s.groups_lost = rollout.groups_lost;
  const ReplayCounters& replay = p.replay->counters();
  s.episodes_stored = replay.stored;
  s.waiting_verdicts = replay.waiting_verdicts;
  s.ready_episodes = replay.ready_episodes;
  s.scored = replay.scored, s.solved = replay.solved, s.stale = replay.stale;
  s.too_old = replay.too_old, s.zero_variance = replay.zero_variance;
  s.evicted = replay.evicted, s.rescored = replay.rescored;
  s.second_looks = p.reward->counters().second_looks;
  s.duplicates = replay.duplicates, s.used = replay.used;
  const RewardCounters& reward = p.reward->counters();
  s.reward_retries = reward.retries, s.unscorable = reward.unscorable;
  const ToolCounters& tools = p.tool_loop->counters();
  s.gradings = tools.gradings;
  s.unavailable = tools.unavailable;
  s.cache_hits = tools.cache_hits + tools.joined;
  s.cache_misses = tools.cache_misses - tools.joined;
  s.tool_commands = tools.cache_misses;
  const double commands = std::max<double>(1, static_cast<double>(tools.cache_misses));
  s.tool_ms = static_cast<double>(tools.wall_us) / 1e3 / commands;
  s.queue_ms = static_cast<double>(tools.queue_us) / 1e3 / commands;
  if (p.learner) {
    s.steps = p.learner->counters().steps;
    s.version = p.learner->counters().version;
    s.trained_tokens = p.learner->counters().tokens;
  }
  const double elapsed = s.seconds;
  for (const LoopUsage& usage : p.runner->Usage()) {
    s.busy.push_back({usage.name, false, Seconds(usage.busy) / elapsed});
  }
  s.busy.push_back({"engine", true, Seconds(p.engine->busy().Busy(now)) / elapsed});
  // Tool calls and gradings have as many slots each.
  s.busy.push_back(
      {"boxes", true, Seconds(p.tools->Busy(now)) / elapsed / std::max(1, 2 * p.threads.boxes)});
  s.busy.push_back({"store", true, Seconds(p.store->busy().Busy(now)) / elapsed});
  if (p.trainer)
    s.busy.push_back({"trainer", true, Seconds(p.trainer->busy().Busy(now)) / elapsed});
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

}  // namespace tidemill
