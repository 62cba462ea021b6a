// How a fleet is shown: a table for a terminal, a line for each change elsewhere.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scale/launch/fleet_health.h"
#include "scale/launch/fleet_state.h"

namespace tidemill {

// What is known of a fleet at one moment.
struct LaunchScreen {
  std::vector<FleetState> states;
  std::vector<RoleHealth> roles;       // of the roster
  std::vector<WorkerHealth> workers;   // the roster
  std::string roster_failure;          // why it could not be read; empty: it was
  std::vector<std::string> last_logs;  // the ends of the logs of what died
};

// All of it: a line for each machine, process and role, and each worker that is silent.
std::string FleetTable(const LaunchScreen& look);

// What changed since the last call, a line each. Belongs to one thread.
class FleetChanges {
 public:
  std::string Since(const LaunchScreen& look);

 private:
  std::map<std::string, std::string> shown_;  // by machine and process
};

// The logs of what died, each end once. Belongs to one thread.
class FleetLogs {
 public:
  using LogOf = std::function<std::string(const FleetState&, const std::string& process)>;
  // Those of ends that are new since the last call.
  std::vector<std::string> Since(const std::vector<FleetState>& states, const LogOf& log_of);

 private:
  std::map<std::string, std::string> seen_;  // by machine and process
};

// All of the fleet is over.
bool IsOver(const std::vector<FleetState>& states);
// The first failure; empty: none.
std::string FailureOf(const std::vector<FleetState>& states);

}  // namespace tidemill
