// What the keys of [engine] and [learner] that choose a backend must have in common with the rest.
#pragma once

#include "config/config.h"
#include "model/model_config.h"
#include "run/run_config.h"

namespace tidemill {

// A part of CheckRunConfig.
Status CheckBackends(const RunConfig& config, const Binder& binder);

// kInvalid: `model` has experts, which the config wants trained as they were drawn, and engine and
// learner cannot tell each other. Asked where a model is at hand and something is trained.
Status CheckReplayedExperts(const RunConfig& config, const ModelConfig& model);

}  // namespace tidemill
