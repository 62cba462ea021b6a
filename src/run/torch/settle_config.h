// What a config leaves to the machine, decided before anything is opened: the device, what a learner
// needs to fit, and the tools of MCP servers. A run's saved config says what was asked for, so that it can go on
// elsewhere.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "run/process.h"
#include "run/run_config.h"

namespace tidemill {

// kInvalid: a run that cannot fit on its GPU; where it may not fit a CPU, whose memory is
// everybody's, that is added to `warnings`.
Result<RunConfig> SettleConfig(RunConfig config, const RunRequest& request,
                               std::vector<std::string>& warnings);

}  // namespace tidemill
