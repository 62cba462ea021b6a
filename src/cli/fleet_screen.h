// How a fleet is shown: a table for a terminal, a line for each change elsewhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scale/launch/fleet_state.h"

namespace tidemill {

// All of it: a line for each machine and each process.
std::string FleetTable(const std::vector<FleetState>& states);

// What changed since the last call, a line each. Belongs to one thread.
class FleetChanges {
 public:
  std::string Since(const std::vector<FleetState>& states);

 private:
  std::map<std::string, std::string> shown_;  // by machine and process
};

// All of the fleet is over.
bool IsOver(const std::vector<FleetState>& states);
// The first failure; empty: none.
std::string FailureOf(const std::vector<FleetState>& states);

}  // namespace tidemill
