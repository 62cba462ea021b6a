#include "run/torch/policy_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "core/files.h"
#include "core/version.h"
#include "engine/cpu/cpu_kernels.h"
#include "gateway/plain_recorder.h"
#include "live/live_run.h"
#include "model/torch/lora.h"
#include "model/torch/model.h"
#include "run/live_options.h"
#include "run/torch/engine_setup.h"
#include "run/torch/make_trainer.h"
#include "store/run_directory.h"

namespace tidemill {

PolicyServer::~PolicyServer() {
  if (!announced_.empty()) std::remove(announced_.c_str());
}

Status PolicyServer::Announce() {
  live_->OnErased([this](const std::string& tenant) { host_->gateway().ForgetPages(tenant); });
  announced_ = GatewayFile(live_->path());
  return WriteFileAtomically(announced_, url() + "\n");
}

Result<std::unique_ptr<TurnRecorder>> PolicyServer::Remember(const RunConfig& config,
                                                             const RecordTo& record) {
  RunConfig kept = config;
  Binder binder;
  BindRunConfig(kept, binder);
  TM_ASSIGN_OR_RETURN(const LiveOptions options, LiveOptionsFrom(config));
  TM_ASSIGN_OR_RETURN(
      std::unique_ptr<LiveRun> live,
      LiveRun::Open(record.folder, record.run, binder.ToToml("tidemill " + FullVersion()),
                    host_->policy(), clock_, options));
  live_ = live.get();
  TM_ASSIGN_OR_RETURN(LiveOperator made, LiveOperator::Make(live_->path()));
  made.Add("/live/delete", DeleteDeed(*live_));
  operator_.emplace(std::move(made));
  metrics_.AddSource([live = live.get()](MetricSink& sink) { live->Sink(sink); });
  return std::unique_ptr<TurnRecorder>(std::move(live));
}

void PolicyServer::Describe(const RunConfig& config, const PolicyWeights& weights, int threads) {
  const ServedPolicy& policy = host_->policy();
  const EngineStats stats = engine_.port->Stats();
  const auto add = [&](const char* name, std::string what) {
    lines_.emplace_back(name, std::move(what));
  };
  add("model", policy.name + " (" + config.model.path + ")");
  if (!config.model.adapter.empty()) add("adapter", config.model.adapter);
  if (adapters_ != nullptr) {
    for (const std::string& name : adapters_->names()) add("adapter", name);
  }
  add("parameters",
      fmt::format("{:.1f} million, {} on {}",
                  static_cast<double>(weights.config().ParameterCount()) / 1e6,
                  c10::toString(weights.view().embed.scalar_type()), config.model.device));
  add("template", !policy.chat            ? "none: only /v1/completions is answered"
                  : policy.chat->fallback ? "ChatML, as the directory has none"
                                          : "the model's own");
  add("tools", policy.format.tools == ToolFormat::kNone ? "none" : ToolNote(policy));
  add("context", fmt::format("{} tokens", host_->context_tokens()));
  add("cache", fmt::format("{} tokens", stats.pages_total * kPageSlots));
  add("threads", std::to_string(threads));
  add("routes",
      "/v1/chat/completions /v1/completions /v1/responses /v1/messages /v1/models /health /version "
      "/metrics");
}

Status PolicyServer::OpenAdapters(const RunConfig& config, const ServeUse& use,
                                  const std::shared_ptr<const PolicyWeights>& base) {
  if (use.adapters.most == 0) return Ok();
  if (!config.engine.own()) return Invalid("--max-loras is for the program's own engine");
  if (!use.record.run.empty()) {
    return Invalid("--max-loras: sessions that are recorded (--run) are of one policy");
  }
  const auto load = [base](const std::string& path) -> Result<std::shared_ptr<const Weights>> {
    TM_ASSIGN_OR_RETURN(auto adapter,
                        LoadAdapter(path, base->config(), base->view().embed.device().str()));
    TM_ASSIGN_OR_RETURN(auto adapted, PolicyWeights::WithAdapter(base, std::move(adapter)));
    return std::shared_ptr<const Weights>(std::move(adapted));
  };
  adapters_ = std::make_unique<ServedAdapters>(
      *engine_.port, load,
      ServedAdapterOptions{.model = host_->policy().name,
                           .most = use.adapters.most,
                           .by_clients = config.gateway.keys.empty()});
  for (const auto& [name, path] : use.adapters.modules) {
    TM_RETURN_IF_ERROR(adapters_->Add(name, path).WithContext("--lora-modules " + name));
  }
  return Ok();
}

Result<std::unique_ptr<PolicyServer>> PolicyServer::Start(RunConfig config, const ServeUse& serve) {
  const RecordTo& record = serve.record;
  std::unique_ptr<PolicyServer> server(new PolicyServer);
  if (!config.engine.own()) config.model.device = "cpu";
  TM_ASSIGN_OR_RETURN(config.model.device, DeviceOf(config));
  config.learner.lora_rank = 0;  // nothing is trained here
  TM_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Read(config.model.tokenizer_path()));
  TM_ASSIGN_OR_RETURN(const auto weights, LoadServedWeights(config));
  server->channel_ = NewLocalWeightChannel();
  EngineBeginning begin{.weights = weights,
                        .version = 1,
                        .threads = ThreadsFrom(config).engine,
                        .fixed_base = true,
                        .adapters = static_cast<int32_t>(serve.adapters.most),
                        .adapter_rank = serve.adapters.max_rank,
                        .folder = config.engine.folder};
  if (begin.folder.empty()) {
    begin.folder =
        std::filesystem::temp_directory_path() / ("tidemill-serve-" + std::to_string(getpid()));
  }
  TM_ASSIGN_OR_RETURN(server->engine_, OpenEngine(config, tokenizer, std::move(begin),
                                                  *server->channel_, server->clock_));
  TM_ASSIGN_OR_RETURN(server->host_, GatewayHost::Read(config, serve.words));
  GatewayUse use{
      .context_tokens = server->engine_.max_context, .api_key = serve.api_key, .in_a_run = false};
  TM_RETURN_IF_ERROR(server->OpenAdapters(config, serve, weights));
  use.adapters = server->adapters_.get();
  std::unique_ptr<TurnRecorder> recorder;
  if (record.run.empty()) {
    recorder = std::make_unique<PlainRecorder>(server->host_->policy());
  } else {
    TM_ASSIGN_OR_RETURN(recorder, server->Remember(config, record));
    use.learning = true;
    use.operate = [server = server.get()](const HttpRequest& request) {
      return server->operator_->Answer(request);
    };
  }
  TM_RETURN_IF_ERROR(server->host_->Start(config, use, std::move(recorder), *server->engine_.port,
                                          server->clock_, server->metrics_));
  server->Describe(config, *weights, ThreadsFrom(config).engine);
  if (server->live_ != nullptr) TM_RETURN_IF_ERROR(server->Announce());
  // Asked for only through the gateway's own /metrics.
  server->metrics_.AddSource([host = server->host_.get()](MetricSink& sink) { host->Sink(sink); });
  return server;
}

}  // namespace tidemill
