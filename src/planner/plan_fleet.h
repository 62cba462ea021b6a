// The machines that a run is planned for, in words or from a fleet file.
//
//   "2x8xH200+64cpu", "64cpu", fleet.toml -> PlanFleet -> PlanLayout
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "planner/planned_run.h"

namespace tidemill {

struct PlanFleet {
  std::string gpu;  // empty: there are none
  uint32_t hosts = 1;
  uint32_t gpus = 0;   // of all hosts
  uint32_t cores = 0;  // for tools and gradings
  bool cores_assumed = false;
  // As a fleet file says; 0: decided here.
  uint32_t engines = 0, ranks = 0;
};

// kInvalid says what is right. A file names no GPUs: `gpu` does.
Result<PlanFleet> ReadPlanFleet(const std::string& text, const std::string& gpu);

// One GPU has engine and trainer. Of several `ranks` train, and at least one generates.
PlanLayout LayoutOn(const PlanFleet& fleet, const RunConfig& config, uint32_t ranks);

std::string FleetText(const PlanFleet& fleet);

}  // namespace tidemill
