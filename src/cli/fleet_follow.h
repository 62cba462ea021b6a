// Follows a fleet that was started: one screen of its processes, its roster and the logs of what
// failed.
#pragma once

#include "cli/fleet_backend.h"

namespace tidemill {

enum class Until { kThere, kOver };

// The exit status: 0 when every worker is in the roster (kThere) or the run is done, 1 when the
// fleet failed, 130 when the person left; the fleet goes on without us.
int FollowFleet(FleetBackend& backend, const FleetFile& fleet, Until until);

}  // namespace tidemill
