// The part of `tidemill plan` that steps the loops under virtual time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct FleetPlanArguments {
  std::string config_file;
  std::vector<std::string> sets;
  std::string model;    // a folder or a shape; empty: the config's
  std::string fleet;    // empty: the machine of `like`
  std::string like;     // folder of a run; empty: GPUs by their tables
  std::string gpu;      // of a fleet file
  std::string episode;  // words of EpisodeGuess
  uint32_t cores = 0;   // of the machine `like` ran on; 0: this one's
  double price = 0;     // of an hour
  bool best = false;
  double lag_max = 8;
  double seconds = 3600;
  bool json = false;
};

// The exit status.
int RunFleetPlan(const FleetPlanArguments& arguments);

}  // namespace tidemill
