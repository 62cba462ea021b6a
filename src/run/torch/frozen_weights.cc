// Runs that learn by memory alone: weights that nobody changes, and the proof of it.
#include "core/log.h"
#include "memory/torch/prompt_encoder.h"
#include "run/torch/process_ports.h"

namespace tidemill {

Status ProcessPorts::OpenFrozen() {
  TM_ASSIGN_OR_RETURN(frozen_digest_, WeightsDigest(*weights_));
  LogInfo("the weights stay as they are", {{"sha256", frozen_digest_}});
  frozen_ = std::make_unique<FrozenTrainer>(weights_, *channel_);
  ports_.trainer = frozen_.get();
  return Ok();
}

// From the driver's thread, so that no loop waits for it.
Status ProcessPorts::CheckFrozen() {
  if (frozen_ == nullptr || clock_.Now() < check_frozen_at_) return Ok();
  const Time began = clock_.Now();
  TM_ASSIGN_OR_RETURN(const std::string now, WeightsDigest(*weights_));
  // Large weights take a while to read; a hundredth of the time goes into it at most.
  check_frozen_at_ = clock_.Now() + 100 * (clock_.Now() - began);
  if (now == frozen_digest_) return Ok();
  return Internal("the weights changed although memory.only is set");
}

}  // namespace tidemill
