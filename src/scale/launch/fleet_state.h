// What of a fleet is on a disk: what its keeper was told (spec.json, for the owner alone, because
// the URL of the bus has a password) and how it stands (state.json).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "scale/launch/fleet_plan.h"
#include "scale/launch/keeper_book.h"

namespace tidemill {

// What the keeper of one machine has to do.
struct KeeperSpec {
  std::string run;
  std::string bus_url;
  std::string directory;     // in which the processes start
  std::string redis_config;  // of a Redis of ours on this machine; empty: there is none
  std::string redis_program;
  std::vector<FleetProcess> processes;
};

struct ProcessState {
  std::string name, role;
  std::string state;  // "waiting", "running", "ended" or "failed", for people
  pid_t pid = 0;      // while it runs
  uint32_t starts = 0;
  std::string last_end;  // empty: it never ended
  bool died = false;     // it did not end in order, and nobody asked it to end
};

struct FleetState {
  std::string run, host;
  std::string phase;  // "running", "finishing", "stopping" or "over", for people
  bool over = false;
  std::string failure;  // empty: none
  bool kept = false;    // its keeper lives; asked of the system when it is read
  std::vector<ProcessState> processes;
};

std::string SpecText(const KeeperSpec& spec);
Result<KeeperSpec> ReadSpec(const std::string& text);

std::string StateText(const FleetState& state);
Result<FleetState> ReadState(const std::string& text);
FleetState StateOf(const std::string& run, const KeeperBook& book);

// The files of a fleet's folder.
std::string SpecFile(const std::string& folder);
std::string StateFile(const std::string& folder);
std::string LockFile(const std::string& folder);
std::string LogFile(const std::string& folder, const std::string& process);

}  // namespace tidemill
