// From a config and roles to a run that can start.
#include "run/bus_host.h"
#include "run/live_options.h"
#include "run/run.h"
#include "run/torch/engine_host.h"
#include "run/torch/engine_setup.h"
#include "run/torch/grading_host.h"
#include "run/torch/learner_host.h"
#include "run/torch/serving_host.h"
#include "run/torch/settle_config.h"
#include "run/torch/store_host.h"
#include "run/torch/tinker_host.h"

namespace tidemill {
namespace {

// What hosts read, and what loops begin with that no host knows.
Status Begin(Process& process) {
  const RunConfig& config = process.config;
  const RunRequest& request = process.request;
  if (config.live.on && !process.alone()) {
    return Invalid("live.on: only `tidemill train` learns from sessions, not a fleet of workers");
  }
  if (!config.policies.empty() && !process.alone()) {
    return Invalid("policy: only `tidemill train` trains several policies, not a fleet of workers");
  }
  RunStart& start = process.start;
  start.secret = NewSecret();
  start.train = request.train;
  start.eval_prefix = request.eval_prefix;
  start.metrics = request.metrics;
  start.live_tenant_share = TenantShareFrom(config);
  process.threads = ThreadsFrom(config);
  if (!request.roles.learner && !request.roles.rollout) return Ok();
  TM_ASSIGN_OR_RETURN(process.tokenizer, Tokenizer::Read(config.model.tokenizer_path()));
  TM_ASSIGN_OR_RETURN(const ProtocolOptions protocol, ProtocolOptionsFrom(config));
  TM_ASSIGN_OR_RETURN(process.protocol, NewProtocol(config.model.protocol, *process.tokenizer,
                                                    config.model.tokenizer_path(), protocol));
  process.ports.protocol = process.protocol.get();
  start.turn_text = [tokenizer = *process.tokenizer](const std::vector<int32_t>& ids) {
    return tokenizer.Decode(ids, /*skip_special=*/true);
  };
  return Ok();
}

// A host for each part that the roles need, in this order: later ones use earlier ones.
Status OpenHosts(Process& process) {
  const Roles& here = process.request.roles;
  StoreHost* store = nullptr;
  TM_RETURN_IF_ERROR(process.Open<BusHost>().status());
  if (here.learner) {
    TM_ASSIGN_OR_RETURN(store, process.Open<StoreHost>());
  }
  if (here.rollout) {
    TM_ASSIGN_OR_RETURN(EngineHost * engine, process.Open<EngineHost>(store));
    TM_RETURN_IF_ERROR(process.Open<ServingHost>(&engine->engine(), store).status());
  }
  if (here.tools || here.reward) TM_RETURN_IF_ERROR(process.Open<GradingHost>(store).status());
  if (here.learner && process.request.train) {
    TM_RETURN_IF_ERROR(process.Open<LearnerHost>(store).status());
  }
  if (here.learner && process.config.tinker.on) {
    TM_RETURN_IF_ERROR(process.Open<TinkerRunHost>().status());
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<Run>> OpenRun(const RunConfig& config, const RunRequest& request) {
  auto runner = std::make_unique<LoopRunner>();
  std::vector<std::string> warnings;
  TM_ASSIGN_OR_RETURN(RunConfig settled, SettleConfig(config, request, warnings));
  auto process = std::make_unique<Process>(std::move(settled), request);
  process->warnings = std::move(warnings);
  TM_RETURN_IF_ERROR(Begin(*process));
  TM_RETURN_IF_ERROR(OpenHosts(*process));
  TM_ASSIGN_OR_RETURN(LoopOptions options, LoopOptionsFrom(process->config, process->start));
  TM_ASSIGN_OR_RETURN(Loops loops, Assemble(process->config, request.roles, process->ports,
                                            std::move(options), process->start.resumed));
  process->start.resumed = {};
  return std::make_unique<Run>(std::move(runner), std::move(process), std::move(loops));
}

}  // namespace tidemill
