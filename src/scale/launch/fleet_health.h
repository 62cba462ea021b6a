// How the workers of a fleet are, as their heartbeats tell: who is there, who is missing, who is
// silent. Pure; the roster is read elsewhere, as `tidemill status --json` prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "scale/launch/fleet_file.h"

namespace tidemill {

struct WorkerHealth {
  std::string worker, role, host;
  std::string state;  // "here", "leaving" or "lost", for people
  std::string doing;
  double busy = 0;        // share of the time
  double rate = 0;        // of `rate_of` a second
  std::string rate_of;    // empty: it counts nothing
  double beat_age_s = 0;  // since its last heartbeat

  bool here() const { return state == "here"; }
  bool lost() const { return state == "lost"; }
};

// Of the text of `tidemill status --json`. kCorrupt: it is something else.
Result<std::vector<WorkerHealth>> ReadHealth(const std::string& status_json);

struct RoleHealth {
  std::string role;
  uint32_t wanted = 0;
  uint32_t here = 0, lost = 0;
  double busy = 0;  // the mean of those that are here
};

// A row for each role of the fleet file, the learner first.
std::vector<RoleHealth> RolesOf(const FleetFile& fleet, const std::vector<WorkerHealth>& workers);

// Every worker of the file is in the roster.
bool IsThere(const std::vector<RoleHealth>& roles);

// "2 of 2 here", "1 of 2 here, 1 lost".
std::string RoleWords(const RoleHealth& role);

}  // namespace tidemill
