#include "run/torch/settle_config.h"

#include "core/log.h"
#include "core/memory.h"
#include "learner/torch/checkpoint.h"
#include "model/torch/device.h"
#include "run/plan_run.h"
#include "run/torch/make_trainer.h"
#include "tools/mcp_offer.h"

namespace tidemill {
namespace {

constexpr uint32_t kLivePort = 8000;

}  // namespace

Result<RunConfig> SettleConfig(RunConfig config, const RunRequest& request,
                               std::vector<std::string>& warnings) {
  if (config.live.on && config.gateway.port == 0) config.gateway.port = kLivePort;
  const Roles& here = request.roles;
  if (here.learner || here.rollout || here.tools) {
    TM_RETURN_IF_ERROR(ListMcpTools(config.tools));
  }
  if (!here.learner && !here.rollout) return config;
  const bool trains = request.roles.learner && request.train && !config.memory.only;
  // What others compute needs no GPU of this process, which then only holds files of weights.
  if (!config.engine.own() && !(trains && config.learner.own())) config.model.device = "cpu";
  TM_ASSIGN_OR_RETURN(config.model.device, DeviceOf(config));
  const bool gpu = IsGpu(config.model.device);
  TM_ASSIGN_OR_RETURN(const ModelConfig model, ReadModelConfig(config.model.path));
  if (gpu && model.experts.count > 0) {
    return Invalid(config.model.path + " has " + std::to_string(model.experts.count) +
                   " experts a layer, which are computed on a CPU only so far; use "
                   "model.device = \"cpu\", or engine.backend and learner.backend of others");
  }
  if (config.learner.balance_bias > 0 && model.experts.count == 0) {
    return Invalid("learner.balance_bias is above 0, and " + config.model.path + " has no experts");
  }
  if (gpu && config.engine.weights == "int8") {
    return Invalid("engine.weights = \"int8\" is for an engine on a CPU, this one is on " +
                   config.model.device);
  }
  TM_ASSIGN_OR_RETURN(PlanInput input, PlanInputFrom(config, model, gpu));
  input.trains = trains && config.learner.own();
  input.generates = request.roles.rollout && config.engine.own();
  if (gpu) {
    TM_ASSIGN_OR_RETURN(input.memory_bytes, FreeDeviceBytes(config.model.device));
    input.host_memory_bytes = AvailableMemoryBytes();
  } else {
    input.memory_bytes = AvailableMemoryBytes();
  }
  if (request.resume && !input.block_moments.has_value()) {
    input.block_moments = SavedMomentsInBlocks(request.directory->checkpoints_path());
  }
  const MemoryPlan plan = PlanMemory(input);
  if (!plan.fits() && gpu) {
    return Invalid(config.model.path + " on " + config.model.device + ": " + PlanRefusal(plan));
  }
  if (!plan.fits()) warnings.push_back("memory may not suffice: " + PlanRefusal(plan));
  LogInfo("memory plan", {{"needs", BytesText(plan.total_bytes)},
                          {"free", BytesText(plan.memory_bytes)},
                          {"token_budget", plan.token_budget},
                          {"recompute", plan.recompute},
                          {"moments", plan.block_moments ? "int8" : "float32"},
                          {"optimizer_state", plan.state_on_host || !gpu ? "host" : "gpu"}});
  config.learner.moments = plan.block_moments ? "int8" : "float32";
  if (config.learner.optimizer_state == "auto") {
    config.learner.optimizer_state = plan.state_on_host ? "host" : "gpu";
  }
  if (input.trains && config.learner.token_budget == 0) {
    config.learner.token_budget = static_cast<uint32_t>(plan.token_budget);
    config.learner.recompute = plan.recompute;
  }
  if (gpu && config.rollout.cache_mb == 0) {
    config.rollout.cache_mb = static_cast<uint32_t>(plan.cache_bytes >> 20);
  }
  return config;
}

}  // namespace tidemill
