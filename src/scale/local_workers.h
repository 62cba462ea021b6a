// Tool workers as processes of this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scale/fleet_port.h"

namespace tidemill {

// Start() runs `command` (a path and its arguments), Drain() sends it SIGTERM; no process is ever
// killed. The worker's name is WorkerName("tools", pid). Processes that still run when this goes
// are told to leave and left to it.
std::unique_ptr<WorkerBackend> StartLocalWorkers(std::vector<std::string> command);

}  // namespace tidemill
