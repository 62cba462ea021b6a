// What a process will allocate, before it does.
#include "core/log.h"
#include "core/memory.h"
#include "learner/torch/checkpoint.h"
#include "model/torch/device.h"
#include "run/plan_run.h"
#include "run/torch/process_ports.h"

namespace tidemill {

// A run that cannot fit on its GPU is refused; on a CPU, where memory is everybody's, it is warned
// of. Keys that were left open are decided here.
Status ProcessPorts::PlanMemoryHere() {
  const bool gpu = IsGpu(config_.model.device);
  TM_ASSIGN_OR_RETURN(const ModelConfig model, ReadModelConfig(config_.model.path));
  TM_ASSIGN_OR_RETURN(PlanInput input, PlanInputFrom(config_, model, gpu));
  input.trains = request_.roles.learner && request_.train && !config_.memory.only;
  input.generates = request_.roles.rollout;
  if (gpu) {
    TM_ASSIGN_OR_RETURN(input.memory_bytes, FreeDeviceBytes(config_.model.device));
    input.host_memory_bytes = AvailableMemoryBytes();
  } else {
    input.memory_bytes = AvailableMemoryBytes();
  }
  if (request_.resume && !input.block_moments.has_value()) {
    input.block_moments = SavedMomentsInBlocks(request_.directory->checkpoints_path());
  }
  const MemoryPlan plan = PlanMemory(input);
  if (!plan.fits() && gpu) {
    return Invalid(config_.model.path + " on " + config_.model.device + ": " + PlanRefusal(plan));
  }
  if (!plan.fits()) warnings_.push_back("memory may not suffice: " + PlanRefusal(plan));
  LogInfo("memory plan", {{"needs", BytesText(plan.total_bytes)},
                          {"free", BytesText(plan.memory_bytes)},
                          {"token_budget", plan.token_budget},
                          {"recompute", plan.recompute},
                          {"moments", plan.block_moments ? "int8" : "float32"},
                          {"optimizer_state", plan.state_on_host || !gpu ? "host" : "gpu"}});
  config_.learner.moments = plan.block_moments ? "int8" : "float32";
  if (config_.learner.optimizer_state == "auto") {
    config_.learner.optimizer_state = plan.state_on_host ? "host" : "gpu";
  }
  if (input.trains && config_.learner.token_budget == 0) {
    config_.learner.token_budget = static_cast<uint32_t>(plan.token_budget);
    config_.learner.recompute = plan.recompute;
  }
  if (gpu && config_.rollout.cache_mb == 0) {
    config_.rollout.cache_mb = static_cast<uint32_t>(plan.cache_bytes >> 20);
  }
  return Ok();
}

}  // namespace tidemill
