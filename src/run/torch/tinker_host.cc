#include "run/torch/tinker_host.h"

#include <algorithm>
#include <filesystem>

#include "core/log.h"
#include "gateway/served_policy.h"
#include "model/torch/device.h"
#include "run/torch/engine_setup.h"
#include "run/torch/make_trainer.h"

namespace tidemill {
namespace {

// Beside those that are used, so that newer in-flight weights find a place before older ones leave.
constexpr int32_t kSpareAdapters = 4;

}  // namespace

Result<TinkerOptions> TinkerOptionsFrom(const TinkerConfig& config, const std::string& folder) {
  TinkerOptions options;
  options.host = config.host;
  options.port = static_cast<uint16_t>(config.port);
  options.folder = folder;
  options.limits.rank_max = config.max_rank;
  if (config.keys.empty()) return options;
  TM_ASSIGN_OR_RETURN(options.keys, ApiKeys::Read(config.keys));
  options.key_file = config.keys;
  return options;
}

Status TinkerHost::AddBase(const std::string& words, RunConfig config, int64_t rank_max) {
  const size_t equals = words.find('=');
  const std::string given = equals == std::string::npos ? words : words.substr(equals + 1);
  std::error_code error;
  BaseModel base;
  base.folder = std::filesystem::weakly_canonical(given, error).string();
  if (error) return Invalid(given + ": " + error.message());
  // A client finds the tokenizer by the name: a folder of its own machine, or the hub's.
  base.name = base.tokenizer = equals == std::string::npos ? base.folder : words.substr(0, equals);
  const bool twice = std::any_of(bases_.begin(), bases_.end(), [&](const ServedBase& other) {
    return other.base.name == base.name;
  });
  if (base.name.empty() || twice) {
    return Invalid("\"" + words + "\": " + (twice ? "another base has this name" : "no name"));
  }
  config.model.path = base.folder;
  config.learner.lora_rank = static_cast<uint32_t>(rank_max);  // the base itself does not change
  TM_ASSIGN_OR_RETURN(const ServedPolicy policy, ReadServedPolicy(base.folder));
  TM_ASSIGN_OR_RETURN(const auto weights, BaseWeights(config, config.model.device));
  TM_ASSIGN_OR_RETURN(EngineOptions options,
                      EngineOptionsFrom(config, ThreadsFrom(config).engine, policy.tokenizer));
  options.fixed_base = true;
  options.adapters = static_cast<int32_t>(SampleDeskOptions().resident_max) + kSpareAdapters;
  options.adapter_rank = rank_max;
  TM_ASSIGN_OR_RETURN(auto engine, NewEngine(weights, 1, options));
  base.vocabulary = weights->config().vocab_size;
  base.family = std::string(ModelFamilyName(weights->config().family));
  base.context = engine->max_context();
  base.end_ids = policy.end_ids;
  channels_.push_back(NewLocalWeightChannel());
  engines_.push_back(std::make_unique<EngineThread>(std::move(engine), *channels_.back(), clock_,
                                                    EngineThreadOptionsFrom(config)));
  weights_[base.name] = weights;
  bases_.push_back({.base = std::move(base), .engine = engines_.back().get()});
  return Ok();
}

Result<std::unique_ptr<TinkerHost>> TinkerHost::Start(const std::vector<std::string>& directories,
                                                      const RunConfig& config,
                                                      TinkerOptions options) {
  std::unique_ptr<TinkerHost> host(new TinkerHost);
  RunConfig settled = config;
  TM_ASSIGN_OR_RETURN(settled.model.device, DeviceOf(config));
  for (const std::string& words : directories) {
    TM_RETURN_IF_ERROR(host->AddBase(words, settled, options.limits.rank_max));
  }
  AdapterTrainerOptions learner{.bfloat16 = IsGpu(settled.model.device)};
  if (config.learner.token_budget > 0) learner.microbatch_tokens = config.learner.token_budget;
  host->models_ =
      std::make_unique<TorchModels>(host->weights_, learner, ThreadsFrom(settled).trainer);
  TM_ASSIGN_OR_RETURN(host->server_, TinkerServer::Start(std::move(options), host->bases_,
                                                         *host->models_, host->clock_));
  return host;
}

Status TinkerRunHost::Open() {
  const RunConfig& config = process_.config;
  const std::string folder = process_.request.directory->path() + "/tinker";
  TM_ASSIGN_OR_RETURN(TinkerOptions options, TinkerOptionsFrom(config.tinker, folder));
  Result<std::unique_ptr<TinkerHost>> served =
      TinkerHost::Start({config.model.path}, config, std::move(options));
  if (!served.ok()) return served.status().WithContext("tinker");
  served_ = std::move(*served);
  LogInfo("the Tinker API is served", {{"url", served_->url()}});
  return Ok();
}

}  // namespace tidemill
