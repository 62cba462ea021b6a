#include "run/torch/make_trainer.h"

#include <filesystem>

#include "core/log.h"
#include "learner/torch/checkpoint.h"
#include "learner/torch/rank_follower.h"
#include "model/torch/device.h"
#include "model/torch/lora.h"
#include "model/torch/moved_weights.h"
#include "model/torch/weight_block.h"
#include "reward/asked_command.h"
#include "run/loop_options.h"
#include "run/torch/make_ranks.h"

namespace tidemill {

Result<std::string> DeviceOf(const RunConfig& config) {
  Result<std::string> device = ResolveDevice(config.model.device);
  if (!device.ok()) return device.status().WithContext("model.device");
  return device;
}

namespace {

// What an adapter of this run belongs to, wherever others open it from.
std::string BaseModelOf(const RunConfig& config) {
  return std::filesystem::absolute(config.model.path).lexically_normal().string();
}

// All weights are trained and kept in bfloat16 with low halves (model/split_float.h).
bool LearnsNarrow(const RunConfig& config, const std::string& device) {
  return IsGpu(device) && config.learner.moments == "int8" && config.learner.lora_rank == 0 &&
         config.model.adapter.empty();
}

Status CheckNarrow(const RunConfig& config, const std::string& device) {
  if (!IsGpu(device)) return Ok();
  if (config.learner.optimizer_state == "host" && !LearnsNarrow(config, device)) {
    return Invalid(
        "learner.optimizer_state: host on " + device +
        " is for training all weights with learner.moments = int8; use gpu, or train all weights "
        "with int8 moments");
  }
  if (config.learner.moments != "int8") return Ok();
  if (!LearnsNarrow(config, device)) {
    return Invalid(
        "learner.moments: int8 on " + device +
        " is for training all weights; the moments of an adapter are small: use float32");
  }
  if (config.learner.ranks > 1) {
    return Invalid("learner.ranks: " + std::to_string(config.learner.ranks) + " with " +
                   "learner.moments = int8 on " + device +
                   ", whose gradients are bfloat16 and are not added up over ranks; use 1 rank, or "
                   "learner.moments = float32");
  }
  return Ok();
}

// A difference of rewards stays unbiased under the audit's correction; one that is divided by a
// deviation does not, because the correction is in the deviation too.
Status CheckUnbiased(const RunConfig& config, const ObjectiveConfig& objective) {
  if (!config.reward.audit.unbiased || objective.advantage == AdvantageKind::kGroupCentered ||
      objective.advantage == AdvantageKind::kLeaveOneOut)
    return Ok();
  return Invalid("audit.unbiased: the objective " + config.learner.objective +
                 " does not use rewards linearly; learner.options = "
                 "[\"advantage=group_centered\"] or [\"advantage=leave_one_out\"] does");
}

// The program starts with the first question. The function may be copied: the program is one.
GroupFunction GroupFunctionFrom(const RunConfig& config) {
  const LearnerConfig& learner = config.learner;
  if (learner.group_command.empty()) return {};
  CommandLimits limits;
  limits.time = learner.group_timeout;
  auto command = std::make_shared<AskedCommand>(
      StayingCommand::Options{learner.group_command, limits, learner.group_slots},
      config.reward.retries);
  return [command](const std::vector<std::string>& questions) { return command->Ask(questions); };
}

}  // namespace

Result<TrainerOptions> TrainerOptionsFrom(const RunConfig& config) {
  const LearnerConfig& learner = config.learner;
  TM_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
  TrainerOptions options;
  TM_ASSIGN_OR_RETURN(options.objective, ObjectiveFrom(config));
  if (config.live.on && config.live.kl_coefficient > 0) {
    if (options.objective.kl == KlKind::kNone) options.objective.kl = KlKind::kK3;
    options.objective.kl_coefficient = config.live.kl_coefficient;
    options.kl_max = config.live.kl_max;
  }
  TM_RETURN_IF_ERROR(ValidateObjective(options.objective).WithContext("learner.objective"));
  TM_RETURN_IF_ERROR(CheckUnbiased(config, options.objective));
  if (config.batch_episodes() > 0 && config.rollout.group_size == 1 &&
      options.objective.distill.reward != 0 && ComparesWithinGroup(options.objective.advantage)) {
    return Invalid("rollout.group_size: 1 with the objective " + learner.objective +
                   ", which compares the episodes of a group with each other: every advantage "
                   "would be 0; use 2 or more, or an objective that does not compare (vtrace, or "
                   "learner.options = [\"advantage=batch_whitened\"])");
  }
  TM_ASSIGN_OR_RETURN(options.credit.kind, ParseCredit(learner.credit));
  options.credit.turn_weight = learner.turn_weight;
  options.credit.discount = learner.turn_discount;
  if (learner.overlong_buffer > 0) {
    options.credit.overlong = {config.rollout.max_turn_tokens * config.rollout.max_turns,
                               learner.overlong_buffer, learner.overlong_weight};
  }
  options.credit.group = GroupFunctionFrom(config);
  options.schedule.peak = learner.learning_rate;
  options.schedule.warmup_steps = learner.warmup_steps;
  TM_ASSIGN_OR_RETURN(options.schedule.decay, ParseDecay(learner.decay));
  options.schedule.total_steps = config.run.steps;
  options.adamw.beta1 = learner.beta1;
  options.adamw.beta2 = learner.beta2;
  options.adamw.weight_decay = learner.weight_decay;
  options.adamw.moments_in_blocks = learner.moments == "int8";
  // On a CPU it is there already.
  options.adamw.state_on_host = LearnsNarrow(config, device) && learner.optimizer_state == "host";
  options.grad_clip = learner.max_grad_norm;
  if (learner.token_budget > 0) options.microbatch_tokens = learner.token_budget;
  options.recompute = learner.recompute;
  options.exact = config.engine.exact && config.engine.own() &&
                  config.engine.weights == "float32" && !IsGpu(device);
  options.balance = learner.balance_loss;
  options.balance_bias = learner.balance_bias;
  options.replay_experts = learner.replay_experts;
  options.reserve_multiprocessors = static_cast<int>(learner.reserve_multiprocessors);
  options.minibatches = learner.minibatches;
  options.epochs = learner.epochs;
  options.seed = config.run.seed;
  TM_RETURN_IF_ERROR(CheckNarrow(config, device));
  if (IsGpu(device)) {
    options.bfloat16 = true;
    options.publish_dtype = Dtype::kBF16;
  }
  TM_RETURN_IF_ERROR(ValidateTrainerOptions(options).WithContext("learner"));
  return options;
}

namespace {

// In one block, for who only reads them.
Result<std::shared_ptr<const PolicyWeights>> BlockOnGpu(const RunConfig& config,
                                                        const std::string& device) {
  const WeightBlockOptions options{.device = device, .dtype = Dtype::kBF16};
  if (config.model.init != "random") return LoadWeightBlock(config.model.path, options);
  TM_ASSIGN_OR_RETURN(const ModelConfig shape, ReadModelConfig(config.model.path));
  return RandomWeightBlock(shape, config.run.seed, options);
}

// What the model's files hold beyond bfloat16, where the weights came in that.
Status TakeStored(const RunConfig& config, Trainer& trainer) {
  TM_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
  if (!LearnsNarrow(config, device) || config.model.init == "random") return Ok();
  TM_ASSIGN_OR_RETURN(const ModelConfig shape, ReadModelConfig(config.model.path));
  if (shape.dtype == Dtype::kBF16) return Ok();
  TM_ASSIGN_OR_RETURN(const auto stored, PolicyWeights::Load(config.model.path));
  return trainer.TakeExact(*stored);
}

}  // namespace

Result<std::shared_ptr<const PolicyWeights>> BaseWeights(const RunConfig& config,
                                                         const std::string& device) {
  TM_ASSIGN_OR_RETURN(const ModelConfig shape, ReadModelConfig(config.model.path));
  if (config.model.init != "random") TM_RETURN_IF_ERROR(CheckModelWeights(config.model.path));
  // Weights under an adapter do not change: those of 16 bits stay as they are, where the learner
  // reads them so.
  const bool frozen =
      config.learner.lora_rank > 0 || !config.model.adapter.empty() || !config.policies.empty();
  // Below an adapter, or with their low halves elsewhere, they are one block that is read where it
  // lies.
  if (IsGpu(device) && (frozen || LearnsNarrow(config, device))) return BlockOnGpu(config, device);
  const bool narrow = frozen && shape.dtype == Dtype::kBF16;
  const Dtype dtype = narrow ? Dtype::kBF16 : Dtype::kF32;
  const bool drawn = config.model.init == "random";
  TM_ASSIGN_OR_RETURN(
      const auto weights,
      drawn ? PolicyWeights::NewRandom(shape, config.run.seed, dtype)
            : PolicyWeights::Load(config.model.path, {.device = device, .dtype = dtype}));
  if (config.learner.balance_bias > 0) return PolicyWeights::WithRouterBias(weights);
  return drawn && IsGpu(device) ? MovedWeights(weights, device, at::kFloat) : weights;
}

Result<std::shared_ptr<const PolicyWeights>> LoadStartWeights(
    const RunConfig& config, const std::string& checkpoint,
    std::shared_ptr<const PolicyWeights> base) {
  TM_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
  const LoadOptions load{.device = device,
                         .dtype = LearnsNarrow(config, device) ? Dtype::kBF16 : Dtype::kF32};
  const bool adapter = config.learner.lora_rank > 0 || !config.model.adapter.empty();
  if (!adapter)
    return checkpoint.empty() ? BaseWeights(config, device) : PolicyWeights::Load(checkpoint, load);
  if (base == nullptr) {
    TM_ASSIGN_OR_RETURN(base, BaseWeights(config, device));
  }
  const std::string from = checkpoint.empty() ? config.model.adapter : checkpoint;
  if (!from.empty()) {
    TM_RETURN_IF_ERROR(CheckModelWeights(from));
    TM_ASSIGN_OR_RETURN(auto read, LoadAdapter(from, base->config(), device));
    if (read->config.base_model.empty()) {
      LoraAdapter named = *read;
      named.config.base_model = BaseModelOf(config);
      read = std::make_shared<const LoraAdapter>(std::move(named));
    }
    return PolicyWeights::WithAdapter(base, std::move(read));
  }
  LoraConfig lora;
  lora.rank = config.learner.lora_rank;
  lora.alpha = config.learner.lora_alpha;
  lora.target_pattern = "all-linear";
  lora.experts = config.learner.lora_experts;
  lora.base_model = BaseModelOf(config);
  TM_ASSIGN_OR_RETURN(auto fresh, NewAdapter(lora, base->config(), config.run.seed, device));
  return PolicyWeights::WithAdapter(base, std::move(fresh));
}

Result<std::shared_ptr<const PolicyWeights>> LoadServedWeights(const RunConfig& config) {
  TM_ASSIGN_OR_RETURN(const std::string device, DeviceOf(config));
  if (IsGpu(device) && config.model.adapter.empty()) return BlockOnGpu(config, device);
  TM_ASSIGN_OR_RETURN(const auto weights, LoadStartWeights(config, ""));
  return WeightsToSample(weights);
}

Result<std::unique_ptr<Trainer>> NewTrainer(const RunConfig& config, const TrainerStart& start) {
  TM_ASSIGN_OR_RETURN(const TrainerOptions options, TrainerOptionsFrom(config));
  // What a KL term compares with is the policy the run began with, also after a resume.
  std::shared_ptr<const PolicyWeights> reference;
  if (options.objective.NeedsReference()) {
    TM_ASSIGN_OR_RETURN(reference, LoadStartWeights(config, "", start.weights));
  }
  TM_ASSIGN_OR_RETURN(auto trainer, Trainer::New(start.weights, options, reference));
  if (start.checkpoint.empty()) TM_RETURN_IF_ERROR(TakeStored(config, *trainer));
  if (!start.checkpoint.empty()) {
    TM_ASSIGN_OR_RETURN(const CheckpointInfo info, LoadCheckpoint(start.checkpoint, *trainer));
    if (info.step != start.step) {
      return Corrupt(start.checkpoint + ": holds step " + std::to_string(info.step) + ", not " +
                     std::to_string(start.step));
    }
  }
  trainer->RepeatBudgets(start.budgets);
  trainer->NotePublished(start.version, start.step);
  return trainer;
}

Result<std::unique_ptr<TrainerThread>> MakeTrainer(const RunConfig& config,
                                                   const TrainerStart& start,
                                                   WeightChannel& channel, const Clock& clock) {
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<RankGroup> ranks;
  // Where a rank is lost before it has come so far, the others begin anew without it.
  for (RunConfig now = config;; --now.learner.ranks) {
    Status status;
    if (Result<std::unique_ptr<RankGroup>> started = StartRanks(now, start); started.ok()) {
      ranks = std::move(*started);
    } else {
      status = started.status();
    }
    if (status.ok() && !trainer) {  // the others load meanwhile
      TM_ASSIGN_OR_RETURN(trainer, NewTrainer(config, start));
    }
    if (status.ok() && ranks) status = ranks->Agree(Fingerprint(*trainer));
    if (status.ok()) break;
    ranks.reset();
    if (status.code() != Code::kUnavailable || now.learner.ranks <= 1) return status;
    LogWarn("a rank was lost before the first step; starting again without it",
            {{"why", status.message()}, {"ranks", now.learner.ranks - 1}});
  }
  TrainerThreadOptions thread;
  thread.threads = start.threads;
  thread.files_from = config.model.tokenizer_path();
  thread.keep_last = config.learner.keep_checkpoints;
  thread.checkpoints_follow = config.learner.checkpoint_every_steps > 0;
  if (config.live.release) thread.keep_every_steps = config.eval.every_steps;
  thread.first_version = start.version;
  return std::make_unique<TrainerThread>(std::move(trainer), channel, clock, thread,
                                         std::move(ranks));
}

}  // namespace tidemill
