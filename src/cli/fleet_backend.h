// Where the processes of a fleet run: what `tidemill launch` starts, looks at and ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "scale/launch/fleet_file.h"
#include "scale/launch/fleet_health.h"
#include "scale/launch/fleet_state.h"

namespace tidemill {

class FleetBackend {
 public:
  virtual ~FleetBackend() = default;

  // What Start would run, for people: commands, and the files it would write. Secrets are left out.
  virtual Result<std::string> DryRun() = 0;
  // kExists: this fleet runs already. On failure nothing of it is left running.
  virtual Status Start() = 0;
  // One for each machine, or one for all where the backend has one view. kNotFound: no such fleet.
  virtual Result<std::vector<FleetState>> States() = 0;
  // The workers that are in the run's roster. kUnavailable: the bus does not answer, or is not
  // there yet. kNotFound: nobody is there yet.
  virtual Result<std::vector<WorkerHealth>> Roster() = 0;
  // Asks all of it to end; returns before it has.
  virtual Status Down() = 0;
  // Ends what this backend leaves running when a fleet is over; `failure` is empty where the run is
  // done. Most leave nothing.
  virtual Status Leave(const std::string& failure) {
    (void)failure;
    return Ok();
  }
  // The end of a process's log, and where all of it is.
  virtual std::string LogOf(const FleetState& state, const std::string& process) = 0;
};

std::unique_ptr<FleetBackend> HostsBackend(const FleetFile& fleet);  // local and ssh
std::unique_ptr<FleetBackend> JobsBackend(const FleetFile& fleet);   // slurm
std::unique_ptr<FleetBackend> KubernetesBackend(const FleetFile& fleet);
std::unique_ptr<FleetBackend> BackendFor(const FleetFile& fleet);

// Of the fleet file, or this one.
std::string FleetProgram(const FleetFile& fleet);

// The URL in fleet.bus_file. kInvalid: others may read the file.
Result<std::string> ReadBusFile(const FleetFile& fleet);

// The roster of a run on the bus at `url`, as `tidemill status --json` prints it.
Result<std::string> RosterText(const std::string& url, const std::string& run);
// Of the fleet whose keeper was told in this folder of this machine.
Result<std::string> RosterIn(const std::string& folder);

// Runs a command to its end. kUnavailable has what it printed.
Result<std::string> RunForOutput(const std::vector<std::string>& words);

}  // namespace tidemill
