#include "observe/fleet_busy.h"

#include <algorithm>

namespace tidemill {

void FleetBusy::Take(const RosterTotals& totals, const std::vector<RosterEntry>& workers) {
  for (const auto& [key, busy] : totals) {
    const size_t slash = key.find('/');
    if (slash == std::string::npos) continue;
    const std::string role = key.substr(0, slash), name = key.substr(slash + 1);
    const bool port = name.starts_with(kBusyPort);
    if (!port && !name.starts_with(kBusyLoop)) continue;
    Part& part = parts_[key];
    part.port = port;
    part.name = name.substr((port ? kBusyPort : kBusyLoop).size());
    const auto could = totals.find(role + "/" + (port ? kTimePort : kTimeLoop) + part.name);
    const double time = could == totals.end() ? 0 : could->second;
    const bool here = std::any_of(workers.begin(), workers.end(), [&](const RosterEntry& entry) {
      return entry.beat.role() == role && !entry.lost();
    });
    // Without a heartbeat in between it is as busy as it was.
    if (!taken_ || !here) {
      part.share = 0;
    } else if (time > part.time) {
      part.share = std::clamp((busy - part.busy) / (time - part.time), 0.0, 1.0);
    }
    part.busy = busy;
    part.time = time;
  }
  taken_ = true;
}

std::vector<FleetShare> FleetBusy::Shares(double seconds) {
  const double passed = std::max(0.0, seconds - seconds_);
  seconds_ = seconds;
  std::vector<FleetShare> shares;
  for (auto& [key, part] : parts_) {
    part.busy_seconds += part.share * passed;
    shares.push_back({part.name, part.port, part.busy_seconds / std::max(1e-9, seconds)});
  }
  return shares;
}

}  // namespace tidemill
