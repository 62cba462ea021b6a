#include "run/torch/engine_host.h"

#include "model/torch/device.h"
#include "run/torch/engine_setup.h"
#include "run/torch/store_host.h"
#include "weights/torch/weight_codec.h"

namespace tidemill {

Status EngineHost::Open(StoreHost* store) {
  const RunConfig& config = process_.config;
  const RunRequest& request = process_.request;
  TM_ASSIGN_OR_RETURN(const EngineOptions options,
                      EngineOptionsFrom(config, process_.threads.engine, *process_.tokenizer));
  std::shared_ptr<const PolicyWeights> weights;
  uint64_t version = process_.start.version;
  if (store != nullptr) {
    weights = store->weights();
  } else {
    TM_ASSIGN_OR_RETURN(
        follows_, WeightsWatch::Follow(config, request.bus_url, config.run.name, request.keys));
    TM_ASSIGN_OR_RETURN(PublishedWeights first, follows_->First());
    weights = ToPolicyWeights(std::move(first.weights));
    version = first.version;
  }
  TM_ASSIGN_OR_RETURN(const auto sampled, WeightsToSample(weights));
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, NewEngine(sampled, version, options));
  process_.start.max_context = engine->max_context();
  WeightChannel& channel = store != nullptr ? store->channel() : follows_->channel();
  engine_ = std::make_unique<EngineThread>(std::move(engine), channel, process_.clock,
                                           EngineThreadOptionsFrom(config));
  process_.ports.engine = engine_.get();
  // With a fleet only its engines know how much fits.
  return store != nullptr && !config.asks_gateway() ? store->CheckPrompts() : Ok();
}

}  // namespace tidemill
