#include "cli/training_parts.h"

#include <algorithm>
#include <filesystem>

#include "bus/redis/redis_bus.h"
#include "bus/standard_topics.h"
#include "cli/make_trainer.h"
#include "cli/resume_parts.h"
#include "cli/role_options.h"
#include "core/metrics.h"
#include "core/random.h"
#include "core/topics.h"
#include "policy/torch/device.h"
#include "policy/torch/torch_engine.h"
#include "policy/torch/weight_codec.h"
#include "serve/loop_metrics.h"
#include "tasks/task_file.h"

namespace tidemill {
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
  TM_ASSIGN_OR_RETURN(config.model.device, DeviceOf(config));
  TM_ASSIGN_OR_RETURN(train_tasks, ReadTaskFile(config.tasks.train));
  if (!config.tasks.eval.empty()) {
    TM_ASSIGN_OR_RETURN(eval_tasks, ReadTaskFile(config.tasks.eval));
    if (config.tasks.eval_limit > 0 && eval_tasks.size() > config.tasks.eval_limit) {
      eval_tasks.resize(config.tasks.eval_limit);
    }
  }
  book.Add(train_tasks), book.Add(eval_tasks);
  TM_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Read(config.model.path));
  const ProtocolOptions protocol_options = ProtocolOptionsFrom(config);
  TM_RETURN_IF_ERROR(CheckTools(train_tasks, protocol_options).WithContext(config.tasks.train));
  TM_RETURN_IF_ERROR(CheckTools(eval_tasks, protocol_options).WithContext(config.tasks.eval));
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

Status TrainingRun::Parts::MakeBus(RunDirectory& directory) {
  // Verdicts for a predecessor go to its inbox, not to ours: all that are missing are asked for
  // again, and a worker that found its inbox gone has nothing to remember of ours.
  const auto incarnation = static_cast<uint64_t>(clock.WallMs());
  name = "learner." + std::to_string(incarnation);
  memory = std::make_unique<MemoryBus>(clock);
  ticker = std::make_unique<BusTicker>(*memory);
  bus = memory.get();
  if (options.fleet != nullptr) {
    // What the loops of this process say to each other stays here and ends with them.
    split = std::make_unique<SplitBus>(
        *options.fleet, *memory,
        std::set<std::string, std::less<>>{std::string(kDispatchTopic),
                                           std::string(kBatchRequestsTopic),
                                           InboxTopic(name, "learner")});
    bus = split.get();
    WeightPublisher::Options to;
    to.incarnation = incarnation;
    to.folder = std::filesystem::absolute(directory.path()).string() + "/policy";
    auto made = std::make_unique<WeightPublisher>(EncodeWeights, std::move(to));
    publisher = made.get();
    channel = std::move(made);
    TM_RETURN_IF_ERROR(channel->Publish({start_version, start_step, weights}));
  } else {
    channel = NewLocalWeightChannel();
  }
  return OpenStandardTopics(*bus, {.lease = config.bus.lease, .capacity = config.bus.capacity});
}

Status TrainingRun::Parts::MakePorts() {
  ThreadSettings settings;
  settings.engine = static_cast<int>(config.threads.engine);
  settings.trainer = static_cast<int>(config.threads.trainer);
  settings.boxes = static_cast<int>(config.tools.slots);
  const bool gpu = IsGpu(config.model.device);
  if (gpu && settings.engine == 0) settings.engine = 1;  // they only launch work
  if (gpu && settings.trainer == 0) settings.trainer = 1;
  threads = PlanThreads(settings, AvailableCores());
  if (options.fleet == nullptr) {
    TM_ASSIGN_OR_RETURN(const EngineOptions engine_options,
                        EngineOptionsFrom(config, threads.engine));
    TM_ASSIGN_OR_RETURN(const auto sampled, WeightsToSample(weights));
    TM_ASSIGN_OR_RETURN(std::unique_ptr<Engine> made,
                        NewEngine(sampled, start_version, engine_options));
    max_context = made->max_context();
    engine = std::make_unique<EngineThread>(std::move(made), *channel, clock,
                                            EngineThreadOptionsFrom(config));
    ToolExecutorOptions boxes = ToolExecutorOptionsFrom(config, threads.boxes);
    boxes.metrics = options.metrics;
    TM_ASSIGN_OR_RETURN(tools, ToolExecutor::Create(std::move(boxes), blobs.get(), clock));
  }
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
  dispatch.difficulty_floor = config.tasks.floor;
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

void TrainingRun::Parts::MakeWorkLoops(RewardParts scoring) {
  rollout = std::make_unique<RolloutLoop>(*bus, *engine, *protocol, clock,
                                          RolloutOptionsFrom(config, max_context));
  tool_loop = std::make_unique<ToolLoop>(*bus, *tools, clock, ToolLoopOptionsFrom(config));
  scorer_port = std::move(scoring.port);
  reward = std::make_unique<RewardLoop>(*bus, clock, std::move(scoring.scorers), scoring.options,
                                        scorer_port.get());
}

Status TrainingRun::Parts::MakeLoops(RunDirectory& directory) {
  TM_ASSIGN_OR_RETURN(TaskOrder order,
                      TaskOrder::Make(train_tasks, config.tasks.weights, config.run.seed));
  if (!resumed.cursor.empty()) TM_RETURN_IF_ERROR(order.Seek(resumed.cursor));
  dispatcher = std::make_unique<Dispatcher>(*bus, *clients[0], clock, *journal, train_tasks,
                                            eval_tasks, std::move(order), DispatchOptions());

  TM_ASSIGN_OR_RETURN(RewardParts scoring, MakeReward(config));
  ReplayOptions replay_options;
  replay_options.scorer_versions = scoring.versions;
  if (options.fleet == nullptr) MakeWorkLoops(std::move(scoring));
  replay_options.staleness = {config.staleness.hard_max_steps, config.staleness.max_minutes,
                              config.staleness.too_old == "mask"};
  replay_options.buffer = BufferFrom(config);
  replay_options.buffer.seed = MixHash(config.run.seed, start_step);
  TM_RETURN_IF_ERROR(GroupBuffer::Make(replay_options.buffer).status().WithContext("replay"));
  replay_options.rescore_groups = config.replay.rescore_groups;
  replay_options.drop_zero_variance = config.replay.drop_zero_variance;
  replay_options.max_turn_tokens = config.rollout.max_turn_tokens;
  replay_options.store_capacity = kStoreCapacity;
  replay_options.lease_period = LeasePeriod(config);
  replay_options.score_patience = config.bus.patience;
  if (options.fleet != nullptr) {
    replay_options.worker = name;
    replay_options.empty_topic = false;
  }
  replay_options.versions = {resumed.versions.begin(), resumed.versions.end()};
  replay_options.versions[start_version] = start_step;
  replay = std::make_unique<ReplayLoop>(*bus, *clients[1], clock, *journal, book, replay_options,
                                        TakeSamples(resumed));

  runner = std::make_unique<LoopRunner>();
  if (options.train) {
    LearnerOptions learner_options;
    if (options.fleet != nullptr) learner_options.worker = name;
    learner_options.metrics = options.metrics;
    learner_options.max_steps = config.run.steps;
    learner_options.batch_episodes = config.batch_episodes();
    learner_options.prefetch = config.run.mode == "async";
    learner_options.checkpoint_every_steps = config.learner.checkpoint_every_steps;
    learner_options.checkpoint_folder = directory.checkpoints_path();
    learner_options.steps_done = start_step;
    learner_options.version = start_version;
    learner = std::make_unique<LearnerLoop>(*bus, *clients[2], *trainer, *journal, learner_options);
    runner->Add(*learner);
  }
  runner->Add(*dispatcher);
  if (rollout) runner->Add(*rollout), runner->Add(*tool_loop), runner->Add(*reward);
  runner->Add(*replay);
  if (options.fleet != nullptr && options.metrics != nullptr) {
    options.metrics->AddSource([this](MetricSink& sink) {
      SinkDispatcher(dispatcher->counters(), sink);
      SinkReplay(replay->counters(), sink);
      if (learner) SinkLearner(learner->counters(), sink);
      SinkRunner(runner->Usage(), sink);
    });
  }
  return Ok();
}

}  // namespace tidemill
