#include "run/torch/learner_host.h"

#include <algorithm>

#include "core/log.h"
#include "memory/torch/prompt_encoder.h"
#include "model/model_config.h"
#include "model/torch/device.h"
#include "run/check_backends.h"
#include "run/torch/make_trainer.h"
#include "run/torch/store_host.h"
#include "teacher/http_teacher.h"
#include "weights/torch/weight_codec.h"

namespace tidemill {
namespace {

constexpr double kKeyTolerance = 0.02;  // of a key's length: another machine rounds otherwise

// Keys of other weights or layers do not compare, and nothing would say so.
Status CheckKeys(const PromptEncoder& encoder, const Tokenizer& tokenizer,
                 const CasesState& cases) {
  const auto keyed = std::find_if(cases.cases.rbegin(), cases.cases.rend(),
                                  [](const auto& one) { return !one.record.key().empty(); });
  if (keyed == cases.cases.rend()) return Ok();
  const v1::CaseRecord& record = keyed->record;
  TM_ASSIGN_OR_RETURN(const std::vector<float> key,
                      encoder.Encode(tokenizer.Encode(record.prompt(), SpecialTokens::kAsText)));
  double difference = 0, length = 0;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool there = i < static_cast<size_t>(record.key_size());
    const double known = there ? double{record.key(static_cast<int>(i))} : 0;
    difference += (key[i] - known) * (key[i] - known);
    length += known * known;
  }
  const bool same = static_cast<size_t>(record.key_size()) == key.size() &&
                    difference <= kKeyTolerance * kKeyTolerance * length;
  if (same) return Ok();
  return Invalid("memory.key_layers: the run's cases have keys of other layers or of another " +
                 std::string("model; go on with memory.key_layers, model.path and model.adapter ") +
                 "as they were, or with memory.retrieval = \"lexical\"");
}

}  // namespace

// A teacher that does not fit is refused before anything is trained.
Status LearnerHost::Open(StoreHost* store) {
  TM_RETURN_IF_ERROR(OpenTeacher(*store));
  TM_RETURN_IF_ERROR(OpenKeys(*store));
  TM_RETURN_IF_ERROR(OpenCurator());
  TM_RETURN_IF_ERROR(OpenTrainers(*store));
  // Engine and trainer have what they need of them.
  store->ForgetWeights();
  return Ok();
}

Status LearnerHost::OpenTeacher(StoreHost& store) {
  const RunConfig& config = process_.config;
  TM_ASSIGN_OR_RETURN(const bool needed, NeedsTeacher(config));
  if (!needed || config.memory.only) return Ok();
  if (!config.teacher.endpoint.empty()) return OpenTeacherEndpoint();
  TM_ASSIGN_OR_RETURN(TeacherWeights weights, TeacherWeightsFrom(store));
  ModelTeacherOptions options;
  options.threads = process_.threads.trainer;
  options.batch_tokens = config.teacher.batch_tokens;
  options.max_outstanding = config.teacher.concurrency;
  options.bfloat16 = IsGpu(config.model.device);
  auto made = std::make_unique<ModelTeacher>(std::move(weights), process_.clock, options);
  teacher_busy_ = &made->busy();
  teacher_ = std::move(made);
  process_.ports.teacher = teacher_.get();
  return Ok();
}

// Those of a directory, or of the policy as it was published last.
Result<TeacherWeights> LearnerHost::TeacherWeightsFrom(StoreHost& store) {
  const RunConfig& config = process_.config;
  if (config.teacher.policy) {
    return TeacherWeights([channel = &store.channel(), now = store.weights(),
                           version = process_.start.version]() mutable {
      if (auto newer = channel->NewerThan(version); newer.ok() && newer->weights != nullptr) {
        version = newer->version;
        now = ToPolicyWeights(std::move(newer->weights));
      }
      return now;
    });
  }
  const LoadOptions load{.device = config.model.device,
                         .dtype = IsGpu(config.model.device) ? Dtype::kBF16 : Dtype::kF32};
  auto weights = LoadTeacher(config.teacher.model, load, *process_.tokenizer,
                             static_cast<int64_t>(process_.start.context));
  if (!weights.ok()) return weights.status().WithContext("teacher.model");
  return TeacherWeights([fixed = std::move(*weights)] { return fixed; });
}

Status LearnerHost::OpenTeacherEndpoint() {
  const RunConfig& config = process_.config;
  if (config.rollout.temperature != 1) {
    return Invalid("teacher.endpoint: scores at temperature 1, but rollout.temperature is " +
                   std::to_string(config.rollout.temperature));
  }
  TM_ASSIGN_OR_RETURN(teacher_, HttpTeacher::Make(config.teacher, *process_.tokenizer));
  process_.ports.teacher = teacher_.get();
  return Ok();
}

Status LearnerHost::OpenKeys(StoreHost& store) {
  const RunConfig& config = process_.config;
  if (!config.memory.on || config.memory.retrieval != "hidden") return Ok();
  // Keys in the database are of these weights, also when the run goes on from others.
  std::shared_ptr<const PolicyWeights> weights = store.weights();
  if (!store.policies().front().checkpoint.empty()) {
    TM_ASSIGN_OR_RETURN(weights, LoadStartWeights(MainPolicyConfig(config), "", weights));
  }
  auto encoder = PromptEncoder::Make(weights, static_cast<int>(config.memory.key_layers));
  if (!encoder.ok()) return encoder.status().WithContext("memory.key_layers");
  TM_RETURN_IF_ERROR(CheckKeys(*encoder, *process_.tokenizer, store.cases()));
  keys_ = std::make_unique<ModelKeys>(std::move(*encoder), *process_.tokenizer, process_.clock,
                                      ModelKeysOptions{});
  process_.ports.keys = keys_.get();
  return Ok();
}

Status LearnerHost::OpenCurator() {
  const SkillsConfig& keys = process_.config.skills;
  if (keys.curator.empty() || !process_.request.train) return Ok();
  JudgeConfig model;
  model.name = kCurator;
  model.endpoint = keys.curator;
  model.model = keys.curator_model;
  model.key_file = keys.curator_key_file;
  model.key_env = keys.curator_key_env;
  model.ca_file = keys.curator_ca_file;
  model.temperature = keys.curator_temperature;
  model.max_tokens = keys.curator_tokens;
  model.timeout = keys.curator_timeout;
  std::vector<JudgeConfig> models = {model};
  TM_RETURN_IF_ERROR(
      curator_models_.Serve(models, process_.config.model.device).WithContext("skills.curator"));
  auto port = HttpJudgePort::Make(models);
  if (!port.ok()) return port.status().WithContext("skills.curator");
  curator_ = std::move(*port);
  process_.ports.curator = curator_.get();
  return Ok();
}

Status LearnerHost::OpenTrainers(StoreHost& store) {
  if (process_.config.memory.only) {
    frozen_weights_ = store.weights();
    TM_ASSIGN_OR_RETURN(frozen_digest_, WeightsDigest(*frozen_weights_));
    LogInfo("the weights stay as they are", {{"sha256", frozen_digest_}});
    frozen_ = std::make_unique<FrozenTrainer>(frozen_weights_, store.channel());
    process_.ports.trainers[PolicyId::kMain] = frozen_.get();
    return Ok();
  }
  TM_ASSIGN_OR_RETURN(const ModelConfig model, ReadModelConfig(process_.config.model.path));
  TM_RETURN_IF_ERROR(CheckReplayedExperts(process_.config, model));
  for (const StoreHost::Hosted& one : store.policies()) {
    if (!one.policy.trained) continue;
    const TrainerStart start{.weights = one.weights,
                             .checkpoint = one.checkpoint,
                             .version = one.start.version,
                             .step = one.start.step,
                             .threads = process_.threads.trainer,
                             .budgets = one.budgets};
    if (!process_.config.learner.own()) return OpenFsdp(store, start);
    WeightChannel& channel =
        one.policy.id == PolicyId::kMain ? store.channel() : *process_.channels.at(one.policy.id);
    auto made = MakeTrainer(one.policy.config, start, channel, process_.clock);
    if (!made.ok() && !one.policy.name.empty()) {
      return made.status().WithContext("policy." + one.policy.name);
    }
    TM_RETURN_IF_ERROR(made.status());
    process_.ports.trainers[one.policy.id] = made->get();
    trainers_.push_back(std::move(*made));
  }
  process_.ranks_lost = [trainer = trainers_.front().get()] { return trainer->ranks_lost(); };
  return Ok();
}

Status LearnerHost::OpenFsdp(StoreHost& store, const TrainerStart& start) {
  const RunConfig& config = process_.config;
  const FsdpPlace place{
      .folder = process_.request.directory->path() + "/ranks",
      // A teacher that is the policy reads what was published too.
      .for_servers = !config.engine.own() && process_.alone() && !config.teacher.policy};
  TM_ASSIGN_OR_RETURN(fsdp_,
                      MakeFsdpTrainer(config, start, place, store.channel(), process_.clock));
  process_.ports.trainers[PolicyId::kMain] = fsdp_.get();
  process_.ranks_lost = [trainer = fsdp_.get()] { return trainer->ranks_lost(); };
  return Ok();
}

std::vector<PortUse> LearnerHost::Usage(Time now) const {
  std::vector<PortUse> uses;
  // Their steps take turns.
  Duration training{};
  for (const auto& trainer : trainers_) training += trainer->busy().Busy(now);
  if (!trainers_.empty()) uses.push_back({"trainer", training, 1});
  if (fsdp_) uses.push_back({"trainer", fsdp_->busy().Busy(now), 1});
  if (keys_) uses.push_back({"keys", keys_->busy().Busy(now), 1});
  if (teacher_busy_ != nullptr) uses.push_back({"teacher", teacher_busy_->Busy(now), 1});
  return uses;
}

// From the driver's thread, so that no loop waits for it.
Status LearnerHost::Watch() {
  if (frozen_ == nullptr || process_.clock.Now() < check_frozen_at_) return Ok();
  const Time began = process_.clock.Now();
  TM_ASSIGN_OR_RETURN(const std::string now, WeightsDigest(*frozen_weights_));
  // Large weights take a while to read; a hundredth of the time goes into it at most.
  check_frozen_at_ = process_.clock.Now() + 100 * (process_.clock.Now() - began);
  if (now == frozen_digest_) return Ok();
  return Internal("the weights changed although memory.only is set");
}

}  // namespace tidemill
