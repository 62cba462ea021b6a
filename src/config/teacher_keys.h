// The keys of [teacher]: who scores tokens for distillation.
#pragma once

#include "config/run_config.h"

namespace tidemill {

void BindTeacher(RunConfig& config, Binder& binder);

// What the keys must have in common; the message names the key and its place.
Status CheckTeacher(const RunConfig& config, const Binder& binder);

}  // namespace tidemill
