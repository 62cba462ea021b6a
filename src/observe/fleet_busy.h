// How busy the loops and ports of all workers of a fleet are, from the roster's totals. No I/O.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bus/roster.h"

namespace tidemill {

// Names of counts: seconds in which a loop or port worked, and in which it could have.
inline const std::string kBusyLoop = "busy_loop_", kTimeLoop = "time_loop_",
                         kBusyPort = "busy_port_", kTimePort = "time_port_";

struct FleetShare {
  std::string name;
  bool port = false;  // else a loop
  double share = 0;   // 0..1
};

// Belongs to one thread.
class FleetBusy {
 public:
  // The totals as they are now, and who is there.
  void Take(const RosterTotals& totals, const std::vector<RosterEntry>& workers);
  // The share of the time in which each worked, over the first `seconds` of the run, as a process
  // tells it of its own loops. `seconds` never go back.
  std::vector<FleetShare> Shares(double seconds);

 private:
  struct Part {
    std::string name;
    bool port = false;
    double busy = 0, time = 0;  // as totals said last
    double share = 0;           // lately, of those that are there
    double busy_seconds = 0;    // shares over the seconds of the run
  };
  std::map<std::string, Part> parts_;  // "rollout/busy_port_engine"
  bool taken_ = false;
  double seconds_ = 0;
};

}  // namespace tidemill
