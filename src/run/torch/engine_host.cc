#include "run/torch/engine_host.h"

#include <algorithm>
#include <filesystem>

#include "run/torch/store_host.h"
#include "weights/torch/weight_codec.h"

namespace tidemill {

Status EngineHost::Open(StoreHost* store) {
  const RunConfig& config = process_.config;
  const RunRequest& request = process_.request;
  EngineBeginning begin{.version = process_.start.version,
                        .step = process_.start.step,
                        .threads = process_.threads.engine};
  if (store != nullptr) {
    begin.weights = store->weights();
    begin.folder = request.directory->path() + "/servers";
    // Nothing but adapters changes.
    begin.fixed_base = !config.policies.empty();
    for (const StoreHost::Hosted& one : store->policies()) {
      if (one.policy.id == PolicyId::kMain) continue;
      ++begin.adapters;
      begin.adapter_rank = std::max(begin.adapter_rank, one.weights->adapter()->config.rank);
    }
  } else {
    TM_ASSIGN_OR_RETURN(
        follows_, WeightsWatch::Follow(config, request.bus_url, config.run.name, request.keys));
    TM_ASSIGN_OR_RETURN(PublishedWeights first, follows_->First());
    begin.weights = ToPolicyWeights(std::move(first.weights));
    begin.version = first.version;
    begin.folder = std::filesystem::temp_directory_path() / ("tidemill-" + request.worker);
  }
  if (!config.engine.folder.empty()) {
    begin.folder = config.engine.folder + "/" + config.run.name;
    if (!request.worker.empty()) begin.folder += "-" + request.worker;
  }
  WeightChannel& channel = store != nullptr ? store->channel() : follows_->channel();
  TM_ASSIGN_OR_RETURN(
      engine_, OpenEngine(config, *process_.tokenizer, std::move(begin), channel, process_.clock));
  process_.start.max_context = engine_.max_context;
  process_.ports.engine = engine_.port.get();
  if (store != nullptr) TM_RETURN_IF_ERROR(OpenPolicies(*store));
  // With a fleet only its engines know how much fits.
  return store != nullptr && !config.asks_gateway() ? store->CheckPrompts() : Ok();
}

// Their first versions are there before anything is drawn.
Status EngineHost::OpenPolicies(const StoreHost& store) {
  for (const StoreHost::Hosted& one : store.policies()) {
    if (one.policy.id == PolicyId::kMain) continue;
    channels_.push_back(std::make_unique<PolicyChannel>(*engine_.port, one.policy.id));
    TM_RETURN_IF_ERROR(channels_.back()
                           ->Publish({one.start.version, one.start.step, one.weights})
                           .WithContext("policy." + one.policy.name));
    process_.channels[one.policy.id] = channels_.back().get();
  }
  return Ok();
}

}  // namespace tidemill
