// Looks at a run on its broker for the autoscaler, on a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bus/run_inspector.h"
#include "scale/fleet_port.h"

namespace tidemill {

// Of a run's topics those that tool workers are scaled by, with what waits and runs on them.
std::vector<TopicLoad> ToolLoads(const std::vector<TopicState>& topics);

// A server that does not answer is a report that says so; the next Ask tries again.
std::unique_ptr<FleetPort> WatchBrokerFleet(const std::string& url, const std::string& run);

}  // namespace tidemill
