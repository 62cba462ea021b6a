#include "run/gateway_host.h"

#include <algorithm>

#include "core/file_limit.h"
#include "core/hash.h"
#include "core/version.h"
#include "gateway/served_files.h"

namespace tidemill {
namespace {

constexpr size_t kOtherFiles = 256;  // of the process: weights, logs, a run

Result<GatewayOptions> GatewayOptionsFrom(const RunConfig& config, const GatewayUse& use,
                                          const ServedPolicy& policy) {
  const GatewayConfig& from = config.gateway;
  GatewayOptions options;
  options.host = from.host;
  options.port = static_cast<uint16_t>(from.port);
  options.strict_model = from.strict_model;
  options.access_log = from.access_log;
  options.cors = from.cors;
  options.version = FullVersion();
  options.limits.ignore_unknown = from.unknown_fields == "ignore";
  options.body_bytes_max = size_t{from.body_mb} << 20;
  options.admission.requests_max = from.max_requests;
  options.connections_max = std::max<size_t>(512, size_t{2} * from.max_requests);
  options.loop.sequences_max = from.max_running;
  options.loop.heartbeat = from.heartbeat;
  options.operate = use.operate;
  options.mcp = use.mcp;
  options.adapters = use.adapters;
  options.own_thread = !use.in_a_run;
  options.loop.cuts = use.in_a_run;
  options.plan.context_tokens = use.context_tokens;
  options.plan.answer_tokens = from.max_answer_tokens;
  options.plan.defaults = DefaultsFrom(policy.generation);
  if (use.learning) {
    options.plan.defaults = {.temperature = config.rollout.temperature,
                             .top_p = config.rollout.top_p,
                             .top_k = static_cast<int32_t>(config.rollout.top_k),
                             .min_p = config.rollout.min_p};
  }
  if (!use.listens) {
    // A key that nobody has, and any port.
    TM_ASSIGN_OR_RETURN(const NewKey key, MakeKey({.name = "nobody"}));
    TM_ASSIGN_OR_RETURN(options.keys, ApiKeys::Parse(key.line, "agents"));
    options.host = "127.0.0.1";
    options.port = 0;
    options.access_log.clear();
  } else if (!use.api_key.empty()) {
    const std::string line = "sha256:" + Sha256Hex(use.api_key) + " tenant=default metrics=yes";
    TM_ASSIGN_OR_RETURN(options.keys, ApiKeys::Parse(line, "--api-key"));
  } else if (from.keys.empty()) {
    // Whoever is on this machine and reaches the port is the person who started it.
    options.keys = ApiKeys::Open({.consent = Consent::kTrain});
  } else {
    TM_ASSIGN_OR_RETURN(options.keys, ApiKeys::Read(from.keys));
    options.key_file = from.keys;
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<GatewayHost>> GatewayHost::Read(const RunConfig& config,
                                                       const ServedWords& words) {
  ServedWords served = words;
  served.tool_format = config.gateway.tool_format;
  TM_ASSIGN_OR_RETURN(
      ServedPolicy policy,
      ReadServedPolicyWith(config.model.path, config.model.tokenizer_path(), served));
  return std::unique_ptr<GatewayHost>(new GatewayHost(std::move(policy)));
}

Status GatewayHost::Start(const RunConfig& config, const GatewayUse& use,
                          std::unique_ptr<TurnRecorder> recorder, EnginePort& engine,
                          const Clock& clock, Metrics& metrics) {
  TM_ASSIGN_OR_RETURN(GatewayOptions options, GatewayOptionsFrom(config, use, policy_));
  engine_ = &engine;
  context_tokens_ = use.context_tokens;
  const size_t files = options.connections_max + kOtherFiles;
  if (const size_t allowed = RaiseFileLimit(files); allowed < files) {
    warnings_.push_back("up to " + std::to_string(options.connections_max) + " connections need " +
                        std::to_string(files) + " open files, but the process may have " +
                        std::to_string(allowed) +
                        " (raise it: ulimit -n, LimitNOFILE; or lower gateway.max_requests)");
  }
  if (!policy_.chat) {
    warnings_.push_back("only /v1/completions is answered: " + policy_.no_chat_reason);
  } else {
    LogTools(policy_);
  }
  recorder_ = std::move(recorder);
  TM_ASSIGN_OR_RETURN(
      gateway_, Gateway::Start(std::move(options), policy_, engine, *recorder_, clock, metrics));
  return Ok();
}

void GatewayHost::Sink(MetricSink& sink) const {
  GatewayMetrics::Sink(gateway_->counts(), engine_->Stats(), policy_.name, sink);
}

}  // namespace tidemill
