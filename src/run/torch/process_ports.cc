#include "run/torch/process_ports.h"

#include <algorithm>
#include <filesystem>

#include "bus/standard_topics.h"
#include "core/files.h"
#include "core/log.h"
#include "core/metrics.h"
#include "core/secret.h"
#include "core/topics.h"
#include "gateway/plain_recorder.h"
#include "model/torch/device.h"
#include "reward/command_port.h"
#include "reward/interpreted_calls.h"
#include "reward/proof_port.h"
#include "reward/scorer_check.h"
#include "run/live_options.h"
#include "run/loop_options.h"
#include "run/recorded_budgets.h"
#include "run/torch/engine_setup.h"
#include "run/torch/make_trainer.h"
#include "run/torch/newest_checkpoint.h"
#include "tasks/prepare_tasks.h"
#include "tasks/task_file.h"
#include "weights/torch/weight_codec.h"
#include "weights/weight_publisher.h"

namespace tidemill {
namespace {

constexpr uint32_t kLivePort = 8000;

ToolExecutorOptions ToolExecutorOptionsFrom(const RunConfig& config, int slots) {
  ToolExecutorOptions options;
  options.tools = ToolOptionsFrom(config);
  if (config.tools.interpret) options.tools.interpret = InterpretCalls;
  options.shells = config.tools.shells;
  options.roots = config.tools.roots;
  options.slots = options.grade_slots = static_cast<size_t>(slots);
  return options;
}

}  // namespace

Status ProcessPorts::Open(RunStart& start) {
  const Roles& here = request_.roles;
  if (!request_.worker.empty()) worker_ = request_.worker;
  if (config_.live.on && !alone()) {
    return Invalid("live.on: only `tidemill train` learns from sessions, not a fleet of workers");
  }
  if (config_.live.on && config_.gateway.port == 0) config_.gateway.port = kLivePort;
  start.secret = NewSecret();
  if (here.learner || here.rollout) {
    TM_ASSIGN_OR_RETURN(config_.model.device, DeviceOf(config_));
    TM_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::Read(config_.model.tokenizer_path()));
    TM_ASSIGN_OR_RETURN(
        protocol_, NewProtocol(config_.model.protocol, *tokenizer_, config_.model.tokenizer_path(),
                               ProtocolOptionsFrom(config_)));
    TM_RETURN_IF_ERROR(PlanMemoryHere());
  }
  threads_ = ThreadsFrom(config_);
  if (here.learner) TM_RETURN_IF_ERROR(OpenTasks());
  if (here.learner) TM_RETURN_IF_ERROR(OpenStore(start));
  TM_RETURN_IF_ERROR(OpenBus(start));
  if (here.learner) TM_RETURN_IF_ERROR(OpenPublisher(start));
  if (here.rollout) TM_RETURN_IF_ERROR(OpenEngine(start));
  if (here.tools) TM_RETURN_IF_ERROR(OpenTools());
  if (here.reward) TM_RETURN_IF_ERROR(OpenScorers());
  if (here.learner && request_.train) TM_RETURN_IF_ERROR(OpenTeacher(start));
  if (here.learner && request_.train) TM_RETURN_IF_ERROR(OpenKeys());
  if (here.learner && request_.train) TM_RETURN_IF_ERROR(OpenTrainer(start));
  ports_.clock = &clock_;
  ports_.journal = request_.journal != nullptr ? request_.journal : &no_journal_;
  ports_.protocol = protocol_.get();
  start.worker = worker_;
  start.alone = alone();
  start.train = request_.train;
  start.eval_prefix = request_.eval_prefix;
  start.metrics = request_.metrics;
  start.live_tenant_share = TenantShareFrom(config_);
  if (tokenizer_) {
    start.turn_text = [tokenizer = *tokenizer_](const std::vector<int32_t>& ids) {
      return tokenizer.Decode(ids, /*skip_special=*/true);
    };
  }
  return Ok();
}

Status ProcessPorts::OpenTasks() {
  TM_ASSIGN_OR_RETURN(blobs_, OpenFileBlobs(request_.directory->blobs_path()));
  if (!config_.tasks.train.empty()) {
    TM_ASSIGN_OR_RETURN(train_tasks_, ReadTaskFile(config_.tasks.train));
  }
  if (!config_.tasks.eval.empty()) {
    TM_ASSIGN_OR_RETURN(eval_tasks_, ReadTaskFile(config_.tasks.eval));
    if (config_.tasks.eval_limit > 0 && eval_tasks_.size() > config_.tasks.eval_limit) {
      eval_tasks_.resize(config_.tasks.eval_limit);
    }
  }
  TM_RETURN_IF_ERROR(Prepare(config_.tasks.train, &train_tasks_));
  TM_RETURN_IF_ERROR(Prepare(config_.tasks.eval, &eval_tasks_));
  book_.Add(train_tasks_), book_.Add(eval_tasks_);
  const ProtocolOptions options = ProtocolOptionsFrom(config_);
  TM_RETURN_IF_ERROR(CheckTools(train_tasks_, options).WithContext(config_.tasks.train));
  TM_RETURN_IF_ERROR(CheckTools(eval_tasks_, options).WithContext(config_.tasks.eval));
  ports_.train_tasks = &train_tasks_;
  ports_.eval_tasks = &eval_tasks_;
  ports_.book = &book_;
  return Ok();
}

// Workers on other machines do not reach the run's blobs: for them contents travel inside messages.
Status ProcessPorts::Prepare(const std::string& file, std::vector<v1::Task>* tasks) {
  const PrepareOptions options{.base = BaseOf(file),
                               .blobs = alone() ? blobs_.get() : nullptr,
                               .roots = config_.tools.roots};
  TM_RETURN_IF_ERROR(PrepareTasks(options, tasks).WithContext(file));
  return CheckScorers(*tasks, config_).WithContext(file);
}

Status ProcessPorts::OpenStore(RunStart& start) {
  RunDirectory& directory = *request_.directory;
  // Kept: what was on the bus when the run stopped has tokens made from it.
  TM_ASSIGN_OR_RETURN(start.secret, KeepSecret(directory.secret_path()));
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunDb> db, RunDb::Open(directory.db_path(), clock_));
  if (request_.resume) {
    TM_ASSIGN_OR_RETURN(const auto newest, NewestCheckpoint(directory));
    if (newest) start.step = newest->step, checkpoint_ = newest->path;
    TM_ASSIGN_OR_RETURN(budgets_, RecordedBudgets(directory.db_path(), start.step));
    TM_RETURN_IF_ERROR(db->ResumeFrom(start.step));
    TM_ASSIGN_OR_RETURN(start.resumed, db->LoadForResume(config_.replay.max_uses));
  }
  start.checkpoints = directory.checkpoints_path();
  TM_ASSIGN_OR_RETURN(weights_, LoadStartWeights(config_, checkpoint_));
  TM_ASSIGN_OR_RETURN(const ModelConfig stored, ReadModelConfig(config_.model.path));
  if (config_.model.init == "files" && request_.train && !weights_->adapter() &&
      stored.dtype != Dtype::kF32 && weights_->config().dtype == Dtype::kF32) {
    warnings_.push_back(config_.model.path + " holds 16-bit weights; checkpoints hold the " +
                        "learner's float32 weights and are twice as large");
  }
  if (!config_.model.tokenizer.empty() &&
      tokenizer_->vocab_size() > weights_->config().vocab_size) {
    return Invalid("model.tokenizer: " + config_.model.tokenizer + " has " +
                   std::to_string(tokenizer_->vocab_size()) + " tokens, the model only " +
                   std::to_string(weights_->config().vocab_size));
  }
  start.vocabulary = static_cast<uint64_t>(weights_->config().vocab_size);
  start.context = config_.rollout.max_context > 0
                      ? config_.rollout.max_context
                      : static_cast<uint64_t>(weights_->config().max_position_embeddings);
  // The weights a run starts (or goes on) with are a version of their own.
  const StoreOp reserve = ReserveVersion{start.step};
  const StoreOp* ops[] = {&reserve};
  TM_ASSIGN_OR_RETURN(auto outcomes, db->Apply(ops));
  TM_RETURN_IF_ERROR(outcomes[0].status);
  start.version = outcomes[0].version;
  if (config_.live.on && request_.train) {
    TM_ASSIGN_OR_RETURN(earlier_live_, LiveRun::Load(*db, clock_));
  }
  if (config_.live.release && request_.train) {
    TM_ASSIGN_OR_RETURN(auto earlier, db->LoadRelease());
    if (earlier) earlier_release_ = std::move(*earlier);
  }
  if (config_.memory.on && request_.train) {
    TM_ASSIGN_OR_RETURN(cases_, db->LoadCases());
    ports_.cases = &cases_;
    shelf_ = std::make_unique<CaseShelf>(MemoryOptionsFrom(config_).bank);
    ports_.shelf = shelf_.get();
  }
  store_ = std::make_unique<StoreThread>(std::move(db), clock_);
  for (StorePort** port : {&ports_.dispatcher_store, &ports_.replay_store, &ports_.learner_store}) {
    clients_.push_back(store_->NewClient(kStoreClientCapacity));
    *port = clients_.back().get();
  }
  if (ports_.cases != nullptr) {
    clients_.push_back(store_->NewClient(kStoreClientCapacity));
    ports_.memory_store = clients_.back().get();
  }
  return Ok();
}

Status ProcessPorts::OpenBus(RunStart&) {
  const TopicPlan plan{.lease = config_.bus.lease, .capacity = config_.bus.capacity};
  if (!request_.roles.learner) {
    ports_.bus = request_.fleet;
    const Roles& here = request_.roles;
    return OpenStandardTopics(*ports_.bus, plan,
                              here.rollout ? "rollout"
                              : here.tools ? "tools"
                                           : "reward");
  }
  memory_ = std::make_unique<MemoryBus>(clock_);
  ticker_ = std::make_unique<BusTicker>(*memory_);
  ports_.bus = memory_.get();
  if (!alone()) {
    // Verdicts for a predecessor go to its inbox, not to ours: all that are missing are asked for
    // again, and a worker that found its inbox gone has nothing to remember of ours.
    worker_ = "learner." + std::to_string(static_cast<uint64_t>(clock_.WallMs()));
    std::set<std::string, std::less<>> inside = {InboxTopic(worker_, "learner"),
                                                 InboxTopic(worker_, "taught")};
    for (const TopicRow& row : kTopics) {
      if (row.inside) inside.insert(std::string(row.name));
    }
    split_ = std::make_unique<SplitBus>(*request_.fleet, *memory_, std::move(inside));
    ports_.bus = split_.get();
  }
  return OpenStandardTopics(*ports_.bus, plan);
}

Status ProcessPorts::OpenPublisher(RunStart& start) {
  if (alone()) {
    // A teacher that is the policy reads what was published after the engine has taken it.
    channel_ = NewLocalWeightChannel(config_.teacher.policy ? HoldWeights::kUntilNext
                                                            : HoldWeights::kUntilTaken);
    return Ok();
  }
  WeightPublisher::Options to;
  to.incarnation = std::stoull(worker_.substr(worker_.find('.') + 1));
  to.folder = std::filesystem::absolute(request_.directory->path()).string() + "/policy";
  auto made = std::make_unique<WeightPublisher>(EncodeWeights, std::move(to));
  publisher_ = made.get();
  channel_ = std::move(made);
  return channel_->Publish({start.version, start.step, weights_});
}

Status ProcessPorts::OpenEngine(RunStart& start) {
  TM_ASSIGN_OR_RETURN(const EngineOptions options,
                      EngineOptionsFrom(config_, threads_.engine, *tokenizer_));
  std::unique_ptr<Engine> engine;
  WeightChannel* channel = channel_.get();
  if (alone()) {
    TM_ASSIGN_OR_RETURN(const auto sampled, WeightsToSample(weights_));
    TM_ASSIGN_OR_RETURN(engine, NewEngine(sampled, start.version, options));
  } else {
    TM_ASSIGN_OR_RETURN(
        follows_, WeightsWatch::Follow(config_, request_.bus_url, config_.run.name, request_.keys));
    TM_ASSIGN_OR_RETURN(PublishedWeights first, follows_->First());
    TM_ASSIGN_OR_RETURN(const auto sampled,
                        WeightsToSample(ToPolicyWeights(std::move(first.weights))));
    TM_ASSIGN_OR_RETURN(engine, NewEngine(sampled, first.version, options));
    channel = &follows_->channel();
  }
  start.max_context = engine->max_context();
  engine_ = std::make_unique<EngineThread>(std::move(engine), *channel, clock_,
                                           EngineThreadOptionsFrom(config_));
  ports_.engine = engine_.get();
  TM_RETURN_IF_ERROR(OpenGateway(start));
  // With a fleet only its engines know how much fits.
  const bool prompts = request_.roles.learner && !config_.agent.used();
  return prompts ? CheckPrompts(start.max_context) : Ok();
}

Status ProcessPorts::OpenGateway(const RunStart& start) {
  // An evaluation with a run's config leaves the run's port to the run.
  const bool evaluates = request_.roles.learner && !request_.train;
  GatewayUse use{.context_tokens = start.max_context, .learning = request_.train};
  use.listens = config_.gateway.port != 0 && !evaluates && request_.metrics != nullptr;
  if (!use.listens && !config_.agent.used()) return Ok();
  EpisodeRecorder* episodes = nullptr;
  const bool guarded = use.listens && (earlier_live_ || config_.live.release);
  if (guarded) TM_RETURN_IF_ERROR(OpenOperator(use));
  if (earlier_live_) {
    use.recorder = [this](const ServedPolicy& policy) { return OpenLive(policy); };
  }
  if (config_.agent.used()) {
    use.recorder = [&, others = use.recorder](
                       const ServedPolicy& policy) -> Result<std::unique_ptr<TurnRecorder>> {
      std::unique_ptr<TurnRecorder> other = std::make_unique<PlainRecorder>(policy);
      if (others) {
        TM_ASSIGN_OR_RETURN(other, others(policy));
      }
      auto made = EpisodeRecorder::Make(policy, clock_, config_.agent.slots, std::move(other));
      if (!made.ok()) return made.status();
      episodes = made->get();
      return std::unique_ptr<TurnRecorder>(std::move(*made));
    };
  }
  if (config_.live.release && use.listens) TM_RETURN_IF_ERROR(OpenRelease(start, use));
  if (guarded) OpenGuards(use);
  Metrics& metrics = request_.metrics != nullptr ? *request_.metrics : own_metrics_;
  TM_ASSIGN_OR_RETURN(gateway_, GatewayHost::Start(config_, use, *engine_, clock_, metrics));
  if (operator_) {
    TM_RETURN_IF_ERROR(WriteFileAtomically(GatewayFile(request_.directory->path()),
                                           gateway_->gateway().url() + "\n"));
  }
  if (live_ != nullptr) {
    live_->OnErased([this](const std::string& tenant) { gateway_->gateway().ForgetPages(tenant); });
  }
  for (const std::string& warning : gateway_->warnings()) warnings_.push_back(warning);
  if (use.listens) LogInfo("the policy is served", {{"url", gateway_->gateway().url()}});
  return episodes != nullptr ? OpenAgents(*episodes) : Ok();
}

Status ProcessPorts::OpenAgents(EpisodeRecorder& episodes) {
  AgentRunnerOptions options;
  TM_ASSIGN_OR_RETURN(options.program, AgentProgramFrom(config_.agent));
  options.slots = config_.agent.slots;
  options.ready = std::min<size_t>(config_.agent.slots, 4);
  options.roots = config_.tools.roots;
  options.give_up = config_.agent.give_up;
  options.learns = request_.train && !config_.memory.only;
  options.boxes.own_user = config_.tools.own_user;
  TM_ASSIGN_OR_RETURN(agents_, AgentRunner::Create(std::move(options), gateway_->gateway(),
                                                   episodes, blobs_.get(), clock_));
  ports_.agents = agents_.get();
  return Ok();
}

Status ProcessPorts::OpenTools() {
  ToolExecutorOptions options = ToolExecutorOptionsFrom(
      config_, alone() ? threads_.boxes : static_cast<int>(config_.tools.slots));
  options.metrics = request_.metrics;
  options.tools.worker = alone() ? "" : worker_;
  TM_ASSIGN_OR_RETURN(tools_, ToolExecutor::Create(std::move(options), blobs_.get(), clock_));
  ports_.tools = tools_.get();
  return Ok();
}

Status ProcessPorts::OpenScorers() {
  const RunConfig::Reward& reward = config_.reward;
  CommandPortOptions options;
  options.limits.time = reward.command_timeout;
  options.limits.output_bytes = size_t{reward.command_output_kb} << 10;
  options.slots = reward.command_slots;
  if (!reward.command.empty()) options.commands["command"] = reward.command;
  if (!reward.review_judge.empty()) options.commands["judge"] = reward.review_judge;
  if (!reward.proof_command.empty()) options.commands[kProofQuestion] = reward.proof_command;
  if (reward.command_stays) options.stays = {"command", "judge", kProofQuestion};
  scorer_ = std::make_unique<ProofPort>(std::make_unique<CommandPort>(std::move(options)));
  ports_.scorer = scorer_.get();
  if (!reward.judges.empty()) {
    std::vector<RunConfig::JudgeKeys> judges = reward.judges;
    TM_RETURN_IF_ERROR(judge_models_.Serve(judges, config_.model.device));
    TM_ASSIGN_OR_RETURN(judges_, HttpJudgePort::Make(judges));
    ports_.judges = judges_.get();
    ports_.votes = &votes_;
  }
  if (train_tasks_.empty()) return Ok();  // a worker of a fleet knows no tasks
  TM_ASSIGN_OR_RETURN(const std::vector<WeightedScorer> scorers, ScorersFrom(config_));
  return CheckScorers(scorers, *scorer_, train_tasks_.front(), {.retries = reward.retries});
}

Status ProcessPorts::OpenTrainer(const RunStart& start) {
  if (config_.memory.only) return OpenFrozen();
  TM_ASSIGN_OR_RETURN(trainer_, MakeTrainer(config_,
                                            {.weights = weights_,
                                             .checkpoint = checkpoint_,
                                             .version = start.version,
                                             .step = start.step,
                                             .threads = threads_.trainer,
                                             .budgets = budgets_},
                                            *channel_, clock_));
  ports_.trainer = trainer_.get();
  // Engine and trainer have what they need of them; whole sets of weights are large.
  weights_.reset();
  return Ok();
}

// A prompt that fills the context leaves nothing to write: its episodes would all be given up.
Status ProcessPorts::CheckPrompts(int32_t max_context) const {
  for (const auto& [key, tasks] :
       {std::pair{"tasks.train", &train_tasks_}, std::pair{"tasks.eval", &eval_tasks_}}) {
    size_t too_long = 0;
    std::string first;
    for (const v1::Task& task : *tasks) {
      const v1::CaseSet none;
      const auto prompt = protocol_->Prompt({task, none, clock_.WallMs()});
      if (!prompt.ok()) return prompt.status().WithContext(std::string(key) + ": " + task.id());
      const size_t tokens = prompt->size();
      if (tokens < static_cast<size_t>(max_context)) continue;
      if (++too_long == 1) first = task.id() + " (" + std::to_string(tokens) + " tokens)";
    }
    if (too_long == 0) continue;
    return Invalid(std::string(key) + ": " + std::to_string(too_long) + " of " +
                   std::to_string(tasks->size()) + " prompts do not fit into the context of " +
                   std::to_string(max_context) + " tokens, the first " + first +
                   "; remove them, shorten them or their tools, or use a larger context");
  }
  return Ok();
}

std::vector<PortHost::Use> ProcessPorts::Usage() const {
  const Time now = clock_.Now();
  std::vector<Use> uses;
  if (engine_) uses.push_back({"engine", engine_->busy().Busy(now), 1});
  if (tools_) {
    uses.push_back(
        {"boxes", tools_->Busy(now),
         static_cast<int>(tools_->slots(ToolLane::kAgent) + tools_->slots(ToolLane::kGrade))});
  }
  if (store_) uses.push_back({"store", store_->busy().Busy(now), 1});
  if (trainer_) uses.push_back({"trainer", trainer_->busy().Busy(now), 1});
  if (keys_) uses.push_back({"keys", keys_->busy().Busy(now), 1});
  if (teacher_busy_ != nullptr) uses.push_back({"teacher", teacher_busy_->Busy(now), 1});
  return uses;
}

// For the autoscaler.
std::map<std::string, double> ProcessPorts::Levels() const {
  if (!tools_) return {};
  return {{"slots", static_cast<double>(tools_->slots(ToolLane::kAgent))},
          {"grade_slots", static_cast<double>(tools_->slots(ToolLane::kGrade))}};
}

std::vector<const CounterSet*> ProcessPorts::counters() const {
  if (live_ == nullptr) return {};
  return {&live_->counters()};
}

void ProcessPorts::Sink(MetricSink& sink) const {
  if (tools_) SinkBoxes(tools_->pool().stats(), sink);
  if (request_.fleet != nullptr) SinkBus(request_.fleet->Stats(), sink);
  if (gateway_) gateway_->Sink(sink);
  if (live_ != nullptr) live_->Sink(sink);
  if (release_) SinkCounters(release_->counters(), sink);
  if (guards_) SinkCounters(guards_->counters(), sink);
}

std::vector<std::string> ProcessPorts::own_topics() const {
  if (alone()) return {};
  if (request_.roles.learner) return {InboxTopic(worker_, "replay")};
  if (request_.roles.tools) return {ToolCancelTopic(worker_), ToolBoxTopic(worker_)};
  if (request_.roles.rollout) return {InboxTopic(worker_, "rollout")};
  return {InboxTopic(worker_, "reward"), InboxTopic(worker_, "judged")};
}

Status ProcessPorts::Watch() {
  TM_RETURN_IF_ERROR(CheckFrozen());
  if (agents_) TM_RETURN_IF_ERROR(agents_->CheckUse());
  return follows_ ? follows_->Look(engine_->version()) : Ok();
}

Result<std::unique_ptr<Run>> OpenRun(const RunConfig& config, const RunRequest& request) {
  auto runner = std::make_unique<LoopRunner>();
  auto host = std::make_unique<ProcessPorts>(config, request);
  RunStart start;
  TM_RETURN_IF_ERROR(host->Open(start));
  TM_ASSIGN_OR_RETURN(LoopOptions options, LoopOptionsFrom(host->config(), start));
  TM_ASSIGN_OR_RETURN(Loops loops, Assemble(host->config(), request.roles, host->ports(),
                                            std::move(options), start.resumed));
  std::vector<std::string> warnings = host->warnings();
  return std::make_unique<Run>(std::move(runner), std::move(host), std::move(loops),
                               std::move(start), std::move(warnings), request.fleet);
}

}  // namespace tidemill
