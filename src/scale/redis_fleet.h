// Looks at a run on Redis for the autoscaler, on a thread of its own.
#pragma once

#include <memory>
#include <string>

#include "scale/fleet_port.h"

namespace tidemill {

// A server that does not answer is a report that says so; the next Ask tries again.
std::unique_ptr<FleetPort> WatchRedisFleet(const std::string& url, const std::string& run);

}  // namespace tidemill
