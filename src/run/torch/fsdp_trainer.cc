#include "run/torch/fsdp_trainer.h"

#include <algorithm>
#include <filesystem>

#include "core/files.h"
#include "core/log.h"
#include "learner/remote/rank_processes.h"
#include "learner/torch/checkpoint.h"
#include "model/torch/device.h"
#include "model/torch/lora.h"
#include "run/torch/served_versions.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

struct StartFolders {
  std::string model, adapter;  // empty: all weights are trained
};

// The policy that the run began with, as files: the ranks read their own parts.
Result<StartFolders> StartFoldersOf(const RunConfig& config, const TrainerStart& start,
                                    const std::string& folder) {
  StartFolders folders{.model = fs::absolute(config.model.path).lexically_normal().string(),
                       .adapter = {}};
  if (config.model.init == "random") {
    folders.model = folder + "/start";
    TM_ASSIGN_OR_RETURN(const auto base, BaseWeights(config, "cpu"));
    TM_RETURN_IF_ERROR(base->Save(folders.model));
  }
  if (config.learner.lora_rank == 0 && config.model.adapter.empty()) return folders;
  folders.adapter = folder + "/adapter";
  TM_ASSIGN_OR_RETURN(const auto first, LoadStartWeights(config, "", start.weights));
  TM_RETURN_IF_ERROR(MakeDirectories(folders.adapter));
  TM_RETURN_IF_ERROR(SaveAdapter(*first->adapter(), folders.adapter));
  return folders;
}

RankMessage HelloOf(const RunConfig& config, const TrainerOptions& options,
                    const StartFolders& folders) {
  RankMessage hello;
  hello.words = {{"model", folders.model},
                 {"adapter", folders.adapter},
                 {"precision", config.learner.precision},
                 {"recompute", options.recompute},
                 {"reference", options.objective.NeedsReference()},
                 {"value_head", options.objective.NeedsValues()},
                 {"beta1", options.adamw.beta1},
                 {"beta2", options.adamw.beta2},
                 {"eps", options.adamw.eps},
                 {"weight_decay", options.adamw.weight_decay}};
  return hello;
}

RemoteStepOptions StepOptionsFrom(const TrainerOptions& options, const ModelConfig& model) {
  RemoteStepOptions step;
  step.objective = options.objective;
  step.credit = options.credit;
  step.schedule = options.schedule;
  step.grad_clip = options.grad_clip;
  step.microbatch_tokens = options.microbatch_tokens;
  step.minibatches = options.minibatches;
  step.epochs = options.epochs;
  step.spike_factor = options.spike_factor;
  step.seed = options.seed;
  step.vocabulary = model.vocab_size;
  return step;
}

using Taken = Result<std::shared_ptr<const Weights>>;

// For an engine in this program: read into memory, on the device it samples on.
Taken ReadInto(const StoredWeights& stored, const std::string& device,
               const std::shared_ptr<const PolicyWeights>& base) {
  const std::string& folder = stored.model().folder;
  if (base->adapter() != nullptr) {
    TM_ASSIGN_OR_RETURN(auto adapter, LoadAdapter(folder, base->config(), device));
    TM_ASSIGN_OR_RETURN(std::shared_ptr<const Weights> made,
                        PolicyWeights::WithAdapter(base, std::move(adapter)));
    return made;
  }
  const Dtype dtype = IsGpu(device) ? Dtype::kBF16 : Dtype::kF32;
  TM_ASSIGN_OR_RETURN(std::shared_ptr<const Weights> made,
                      PolicyWeights::Load(folder, {.device = device, .dtype = dtype}));
  return made;
}

Status WriteAndPrune(const RunConfig& config, const std::string& path,
                     const std::function<Status(const std::string&)>& fill) {
  TM_RETURN_IF_ERROR(WriteCheckpointBy(path, config.model.tokenizer_path(), fill));
  if (config.learner.keep_checkpoints == 0) return Ok();
  const auto pruned = PruneCheckpoints(fs::absolute(path).parent_path().string(),
                                       std::max<uint64_t>(config.learner.keep_checkpoints, 2));
  if (!pruned.ok()) {
    LogWarn("could not delete old checkpoints", {{"why", pruned.status().message()}});
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<RemoteTrainer>> MakeFsdpTrainer(const RunConfig& config,
                                                       const TrainerStart& start,
                                                       const FsdpPlace& place,
                                                       WeightChannel& channel, const Clock& clock) {
  const std::string folder = fs::absolute(place.folder).lexically_normal().string();
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  TM_ASSIGN_OR_RETURN(const TrainerOptions options, TrainerOptionsFrom(config));
  TM_ASSIGN_OR_RETURN(const ModelConfig stored, ReadModelConfig(config.model.path));
  TM_ASSIGN_OR_RETURN(const StartFolders folders, StartFoldersOf(config, start, folder));
  RankCommand command;
  command.words = config.learner.command;
  command.ranks = config.learner.ranks;
  command.log = folder + "/ranks.log";
  command.join_patience = config.learner.rank_join;
  command.answer_patience = config.learner.rank_timeout;
  LogInfo("starting the ranks of fsdp2", {{"ranks", command.ranks}, {"log", command.log}});
  TM_ASSIGN_OR_RETURN(auto ranks,
                      RankProcesses::Start(std::move(command), HelloOf(config, options, folders)));
  LogInfo("the ranks of fsdp2 are there",
          {{"device", ranks->about().words.value("device", "")},
           {"parameters", ranks->about().words.value("parameters", uint64_t{0})},
           {"torch", ranks->about().words.value("torch", "")}});
  RemoteTrainerOptions remote;
  remote.step = StepOptionsFrom(options, stored);
  remote.folder = folder;
  const bool narrow = place.for_servers ? stored.dtype == Dtype::kBF16 : IsGpu(config.model.device);
  remote.publish_dtype = narrow ? "bfloat16" : "float32";
  remote.merged = place.for_servers || folders.adapter.empty();
  if (place.for_servers) {
    remote.canary_ids = CanaryIds(stored);
    remote.take = [](const std::shared_ptr<const StoredWeights>& weights) -> Taken {
      return std::shared_ptr<const Weights>(weights);
    };
  } else {
    remote.take = [device = config.model.device,
                   base = start.weights](const std::shared_ptr<const StoredWeights>& weights) {
      return ReadInto(*weights, device, base);
    };
  }
  remote.write_checkpoint = [config](const std::string& path, const auto& fill) {
    return WriteAndPrune(config, path, fill);
  };
  return RemoteTrainer::Start(std::move(ranks), std::move(remote), start.checkpoint, start.step,
                              start.version, channel, clock);
}

}  // namespace tidemill
