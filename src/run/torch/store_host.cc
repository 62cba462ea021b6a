#include "run/torch/store_host.h"

#include <filesystem>

#include "bus/broker.h"
#include "core/secret.h"
#include "observe/weights_figures.h"
#include "run/recorded_budgets.h"
#include "run/teams.h"
#include "run/torch/make_trainer.h"
#include "run/torch/newest_checkpoint.h"
#include "skills/skill_import.h"
#include "tasks/prepare_tasks.h"
#include "tasks/task_file.h"
#include "weights/shared_folder.h"
#include "weights/torch/weight_codec.h"
#include "weights/weight_publisher.h"

namespace tidemill {
namespace {

std::vector<WayFigures> WaysOf(const WeightPublisher* publisher) {
  std::vector<WayFigures> ways;
  if (publisher == nullptr) return ways;
  for (const auto& [way, figures] : publisher->figures()) {
    ways.push_back({.way = std::string(WayName(way)),
                    .versions = static_cast<double>(figures.versions),
                    .version = static_cast<double>(figures.version),
                    .bytes = static_cast<double>(figures.put.bytes),
                    .whole = static_cast<double>(figures.put.whole),
                    .density = figures.put.density,
                    .seconds = figures.seconds,
                    .bytes_total = static_cast<double>(figures.bytes_total)});
  }
  return ways;
}

}  // namespace

Status StoreHost::Open() {
  TM_RETURN_IF_ERROR(ReadTasks());
  TM_RETURN_IF_ERROR(OpenStore());
  return OpenChannel();
}

Status StoreHost::ReadTasks() {
  const RunConfig& config = process_.config;
  TM_ASSIGN_OR_RETURN(blobs_, OpenFileBlobs(process_.request.directory->blobs_path()));
  if (!config.tasks.train.empty()) {
    TM_ASSIGN_OR_RETURN(train_tasks_, ReadTaskFile(config.tasks.train));
  }
  if (!config.tasks.eval.empty()) {
    TM_ASSIGN_OR_RETURN(eval_tasks_, ReadTaskFile(config.tasks.eval));
    if (config.tasks.eval_limit > 0 && eval_tasks_.size() > config.tasks.eval_limit) {
      eval_tasks_.resize(config.tasks.eval_limit);
    }
  }
  TM_RETURN_IF_ERROR(Prepare(config.tasks.train, &train_tasks_));
  TM_RETURN_IF_ERROR(Prepare(config.tasks.eval, &eval_tasks_));
  book_.Add(train_tasks_), book_.Add(eval_tasks_);
  TM_ASSIGN_OR_RETURN(const ProtocolOptions options, ProtocolOptionsFrom(config));
  TM_RETURN_IF_ERROR(CheckTools(train_tasks_, options).WithContext(config.tasks.train));
  TM_RETURN_IF_ERROR(CheckTools(eval_tasks_, options).WithContext(config.tasks.eval));
  process_.ports.train_tasks = &train_tasks_;
  process_.ports.eval_tasks = &eval_tasks_;
  process_.ports.book = &book_;
  return Ok();
}

// Workers on other machines do not reach the run's blobs: for them contents travel inside messages.
Status StoreHost::Prepare(const std::string& file, std::vector<v1::Task>* tasks) {
  const PrepareOptions options{.base = BaseOf(file),
                               .blobs = process_.alone() ? blobs_.get() : nullptr,
                               .roots = process_.config.tools.roots};
  TM_RETURN_IF_ERROR(PrepareTasks(options, tasks).WithContext(file));
  return CheckScorers(*tasks, process_.config).WithContext(file);
}

Status StoreHost::OpenStore() {
  const RunConfig& config = process_.config;
  RunDirectory& directory = *process_.request.directory;
  RunStart& start = process_.start;
  // Kept: what was on the bus when the run stopped has tokens made from it.
  TM_ASSIGN_OR_RETURN(start.secret, KeepSecret(directory.secret_path()));
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RunDb> db, RunDb::Open(directory.db_path(), process_.clock));
  for (RunPolicy& policy : PoliciesOf(config)) policies_.push_back({.policy = std::move(policy)});
  if (process_.request.resume) TM_RETURN_IF_ERROR(ReadResumed(*db));
  start.checkpoints = directory.checkpoints_path();
  TM_RETURN_IF_ERROR(ReadStart());
  TM_RETURN_IF_ERROR(ReadPolicies());
  TM_RETURN_IF_ERROR(NumberVersions(*db));
  Ports& ports = process_.ports;
  if (config.live.on && process_.request.train) {
    TM_ASSIGN_OR_RETURN(earlier_sessions_, LiveRun::Load(*db, process_.clock));
  }
  if (config.live.release && process_.request.train) {
    TM_ASSIGN_OR_RETURN(auto earlier, db->LoadRelease());
    if (earlier) earlier_release_ = std::move(*earlier);
  }
  if (config.memory.on && process_.request.train) {
    TM_ASSIGN_OR_RETURN(cases_, db->LoadCases());
    shelf_ = std::make_unique<CaseShelf>(config.memory);
    ports.cases = &cases_;
    ports.shelf = shelf_.get();
  }
  if (config.skills.on && process_.request.train) TM_RETURN_IF_ERROR(OpenSkills(*db));
  store_ = std::make_unique<StoreThread>(std::move(db), process_.clock);
  ports.dispatcher_store = &NewClient();
  ports.replay_store = &NewClient();
  ports.learner_store = &NewClient();
  if (shelf_ != nullptr) ports.memory_store = &NewClient();
  if (skills_) ports.skill_store = &NewClient();
  return Ok();
}

// A new run begins with the skills of skills.from, all of them or it does not begin.
Status StoreHost::OpenSkills(RunDb& db) {
  const SkillsConfig& keys = process_.config.skills;
  TM_ASSIGN_OR_RETURN(skills_, db.LoadSkills());
  if (!keys.from.empty() && skills_->lessons.empty()) {
    auto read = ReadSkillFolder(keys.from);
    if (!read.ok()) return read.status().WithContext("skills.from");
    TM_ASSIGN_OR_RETURN(const SkillGuard guard, SkillGuard::Make(process_.config.live.redact));
    v1::SkillLesson lesson = ImportSkills(
        "", *read, {}, {.skills = keys.capacity, .body_bytes = keys.body_bytes}, guard);
    if (!lesson.refused().empty()) {
      const v1::SkillRefusal& refused = lesson.refused(0);
      return Invalid("skills.from: " + refused.name() + ": " + refused.reason());
    }
    lesson.set_key("from");
    lesson.set_at_ms(process_.clock.WallMs());
    TM_RETURN_IF_ERROR(db.ApplyOne(PutSkillLesson{lesson}));
    TM_ASSIGN_OR_RETURN(skills_, db.LoadSkills());
  }
  skill_folder_ =
      std::make_unique<SkillFolderThread>(SkillsFolder(process_.request.directory->path()));
  process_.ports.skills = &*skills_;
  process_.ports.skill_folder = skill_folder_.get();
  return Ok();
}

// All policies go on from one checkpoint of the run, or none does.
Status StoreHost::ReadResumed(RunDb& db) {
  const RunDirectory& directory = *process_.request.directory;
  RunStart& start = process_.start;
  std::vector<RunPolicy> policies;
  for (const Hosted& one : policies_) policies.push_back(one.policy);
  TM_ASSIGN_OR_RETURN(auto newest, NewestCheckpoint(directory, policies));
  if (newest) start.step = newest->step;
  for (Hosted& one : policies_) {
    if (newest && newest->paths.contains(one.policy.id)) {
      one.checkpoint = newest->paths.at(one.policy.id);
    }
    TM_ASSIGN_OR_RETURN(one.budgets,
                        RecordedBudgets(directory.db_path(), start.step, one.policy.name));
  }
  TM_RETURN_IF_ERROR(db.ResumeFrom(start.step));
  TM_ASSIGN_OR_RETURN(start.resumed, db.LoadForResume(UsesOfAll(process_.config)));
  for (Hosted& one : policies_) {
    const auto own = start.resumed.policy_steps.find(one.policy.name);
    if (own != start.resumed.policy_steps.end()) one.start.step = own->second;
  }
  return Ok();
}

// The weights a policy starts (or goes on) with are a version of their own.
Status StoreHost::NumberVersions(RunDb& db) {
  RunStart& start = process_.start;
  const auto reserve = [&](PolicyStep of) -> Result<uint64_t> {
    const StoreOp op = ReserveVersion{start.step, std::move(of)};
    const StoreOp* ops[] = {&op};
    TM_ASSIGN_OR_RETURN(auto outcomes, db.Apply(ops));
    TM_RETURN_IF_ERROR(outcomes[0].status);
    return outcomes[0].version;
  };
  const bool named = !process_.config.policies.empty();
  const bool main_is_named = policies_.front().policy.id == PolicyId::kMain;
  TM_ASSIGN_OR_RETURN(start.version,
                      reserve({"", main_is_named ? policies_.front().start.step : uint64_t{0}}));
  for (Hosted& one : policies_) {
    one.start.id = one.policy.id;
    one.start.version = start.version;
    if (one.policy.id != PolicyId::kMain) {
      TM_ASSIGN_OR_RETURN(one.start.version, reserve({one.policy.name, one.start.step}));
    }
    if (named) start.policies.push_back(one.start);
  }
  return Ok();
}

void StoreHost::ForgetWeights() {
  weights_.reset();
  for (Hosted& one : policies_) one.weights.reset();
}

// Adapters on the base of the default policy.
Status StoreHost::ReadPolicies() {
  for (Hosted& one : policies_) {
    if (one.policy.id == PolicyId::kMain) {
      one.weights = weights_;
      continue;
    }
    auto weights = LoadStartWeights(one.policy.config, one.checkpoint, weights_);
    if (!weights.ok()) return weights.status().WithContext("policy." + one.policy.name);
    one.weights = std::move(*weights);
  }
  return Ok();
}

Status StoreHost::ReadStart() {
  const RunConfig& config = process_.config;
  const Hosted& first = policies_.front();
  const bool main_is_named = first.policy.id == PolicyId::kMain;
  TM_ASSIGN_OR_RETURN(
      weights_, LoadStartWeights(MainPolicyConfig(config), main_is_named ? first.checkpoint : ""));
  TM_ASSIGN_OR_RETURN(const ModelConfig stored, ReadModelConfig(config.model.path));
  if (config.model.init == "files" && process_.request.train && !weights_->adapter() &&
      stored.dtype != Dtype::kF32 && weights_->config().dtype == Dtype::kF32) {
    process_.warnings.push_back(config.model.path + " holds 16-bit weights; checkpoints hold the " +
                                "learner's float32 weights and are twice as large");
  }
  const ModelConfig& shape = weights_->config();
  if (!config.model.tokenizer.empty() && process_.tokenizer->vocab_size() > shape.vocab_size) {
    return Invalid("model.tokenizer: " + config.model.tokenizer + " has " +
                   std::to_string(process_.tokenizer->vocab_size()) + " tokens, the model only " +
                   std::to_string(shape.vocab_size));
  }
  process_.start.vocabulary = static_cast<uint64_t>(shape.vocab_size);
  process_.start.context = config.rollout.max_context > 0
                               ? config.rollout.max_context
                               : static_cast<uint64_t>(shape.max_position_embeddings);
  return Ok();
}

StorePort& StoreHost::NewClient() {
  clients_.push_back(store_->NewClient(kStoreClientCapacity));
  return *clients_.back();
}

Status StoreHost::OpenChannel() {
  if (process_.alone()) {
    // A teacher that is the policy reads what was published after the engine has taken it.
    channel_ = NewLocalWeightChannel(process_.config.teacher.policy ? HoldWeights::kUntilNext
                                                                    : HoldWeights::kUntilTaken);
    return Ok();
  }
  const std::string& worker = process_.start.worker;
  WeightPublisher::Options to;
  to.incarnation = std::stoull(worker.substr(worker.find('.') + 1));
  to.folder = std::filesystem::absolute(process_.request.directory->path()).string() + "/policy";
  TM_RETURN_IF_ERROR(MarkSharedFolder(to.folder, to.incarnation));
  to.bus = [url = process_.request.bus_url, run = process_.config.run.name] {
    return ConnectPlace(url, run);
  };
  auto made = std::make_unique<WeightPublisher>(EncodeWeights, std::move(to));
  process_.publisher = made.get();
  channel_ = std::move(made);
  return channel_->Publish({process_.start.version, process_.start.step, weights_});
}

std::map<std::string, double> StoreHost::Levels() const {
  return NumbersOf(WaysOf(process_.publisher));
}

void StoreHost::Sink(MetricSink& sink) const {
  SinkWays(WaysOf(process_.publisher), sink);
}

Status StoreHost::CheckPrompts() const {
  const auto most = static_cast<size_t>(process_.start.max_context);
  for (const auto& [key, tasks] :
       {std::pair{"tasks.train", &train_tasks_}, std::pair{"tasks.eval", &eval_tasks_}}) {
    size_t too_long = 0;
    std::string first;
    for (const v1::Task& task : *tasks) {
      const v1::CaseSet none;
      const auto prompt = process_.protocol->Prompt({task, none, process_.clock.WallMs()});
      if (!prompt.ok()) return prompt.status().WithContext(std::string(key) + ": " + task.id());
      const size_t tokens = prompt->size();
      if (tokens < most) continue;
      if (++too_long == 1) first = task.id() + " (" + std::to_string(tokens) + " tokens)";
    }
    if (too_long == 0) continue;
    return Invalid(std::string(key) + ": " + std::to_string(too_long) + " of " +
                   std::to_string(tasks->size()) + " prompts do not fit into the context of " +
                   std::to_string(most) + " tokens, the first " + first +
                   "; remove them, shorten them or their tools, or use a larger context");
  }
  return Ok();
}

}  // namespace tidemill
