#include "run/torch/open_engine.h"

#include <algorithm>

#include "core/files.h"
#include "core/log.h"
#include "core/secret.h"
#include "engine/remote/remote_engine.h"
#include "model/torch/device.h"
#include "run/torch/engine_setup.h"
#include "run/torch/served_versions.h"

namespace tidemill {
namespace {

constexpr double kToleranceInFloat32 = 1e-4;
constexpr double kToleranceInBfloat16 = 0.05;

RemoteOptions RemoteOptionsFrom(const RunConfig& config, const Tokenizer& tokenizer,
                                const ModelConfig& model) {
  const EngineThreadOptions own = EngineThreadOptionsFrom(config);
  RemoteOptions options;
  options.vocabulary = static_cast<int32_t>(model.vocab_size);
  options.max_context = static_cast<int32_t>(
      config.rollout.max_context > 0 ? config.rollout.max_context : model.max_position_embeddings);
  options.token_bytes = [tokenizer](TokenId id) { return std::string(tokenizer.TokenBytes(id)); };
  options.cache_on_swap = own.cache_on_swap;
  options.wait_for_weights = own.wait_for_weights;
  options.salt_key = NewSecret();
  options.turns_per_server = config.engine.server_turns;
  options.canary_tolerance = config.engine.canary_tolerance;
  if (options.canary_tolerance == 0) {
    options.canary_tolerance =
        model.dtype == Dtype::kF32 ? kToleranceInFloat32 : kToleranceInBfloat16;
  }
  return options;
}

Result<RemoteEngine::Servers> ServersFrom(const RunConfig& config, const std::string& folder) {
  const EngineConfig& engine = config.engine;
  RemoteEngine::Servers servers;
  servers.dialect = engine.backend == "sglang" ? NewSglangDialect() : NewVllmDialect();
  servers.start_patience = engine.server_start;
  for (const std::string& text : engine.urls) {
    auto url = ParseHttpUrl(text);
    if (!url.ok()) return url.status().WithContext("engine.urls");
    servers.urls.push_back(std::move(*url));
  }
  if (engine.command.empty()) return servers;
  ServerCommand command{.words = engine.command, .log_folder = folder};
  for (std::string& word : command.words) {
    const size_t at = word.find("{model}");
    if (at != std::string::npos) word.replace(at, 7, config.model.path);
  }
  auto processes = ServerProcesses::Start(std::move(command), engine.servers);
  if (!processes.ok()) return processes.status().WithContext("engine.command");
  servers.processes.emplace(std::move(*processes));
  return servers;
}

Result<OpenedEngine> OpenServers(const RunConfig& config, const Tokenizer& tokenizer,
                                 EngineBeginning start, WeightChannel& channel,
                                 const Clock& clock) {
  TM_ASSIGN_OR_RETURN(const ModelConfig stored, ReadModelConfig(config.model.path));
  TM_ASSIGN_OR_RETURN(const ServedVersions versions,
                      ServedVersions::In(start.folder, stored.dtype));
  TM_ASSIGN_OR_RETURN(RemoteEngine::Servers servers, ServersFrom(config, start.folder));
  const RemoteOptions options = RemoteOptionsFrom(config, tokenizer, stored);
  LogInfo("waiting for inference servers",
          {{"backend", config.engine.backend}, {"folder", start.folder}});
  const PublishedWeights first{start.version, start.step, std::move(start.weights)};
  auto engine = RemoteEngine::Start(
      std::move(servers), options, first,
      [versions](const PublishedWeights& weights) { return versions.Prepare(weights); }, channel,
      clock);
  if (!engine.ok()) return engine.status().WithContext("engine.backend = " + config.engine.backend);
  OpenedEngine opened;
  opened.busy = &(*engine)->busy();
  opened.max_context = (*engine)->max_context();
  opened.port = std::move(*engine);
  return opened;
}

}  // namespace

Result<OpenedEngine> OpenEngine(const RunConfig& config, const Tokenizer& tokenizer,
                                EngineBeginning start, WeightChannel& channel, const Clock& clock) {
  if (!config.engine.own()) {
    return OpenServers(config, tokenizer, std::move(start), channel, clock);
  }
  TM_ASSIGN_OR_RETURN(EngineOptions options, EngineOptionsFrom(config, start.threads, tokenizer));
  options.adapters = start.adapters;
  options.adapter_rank = start.adapter_rank;
  options.fixed_base = start.fixed_base;
  TM_ASSIGN_OR_RETURN(const auto sampled, WeightsToSample(start.weights));
  TM_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, NewEngine(sampled, start.version, options));
  OpenedEngine opened;
  opened.max_context = engine->max_context();
  auto port = std::make_unique<EngineThread>(std::move(engine), channel, clock,
                                             EngineThreadOptionsFrom(config));
  opened.busy = &port->busy();
  opened.port = std::move(port);
  return opened;
}

}  // namespace tidemill
