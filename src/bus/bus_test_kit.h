// Small things that tests of a bus share.
#pragma once

#include <string>
#include <vector>

#include "bus/bus.h"
#include "core/test_kit.h"

namespace tidemill {

inline std::vector<std::string> Bodies(const std::vector<Lease>& leases) {
  std::vector<std::string> bodies;
  for (const Lease& lease : leases) bodies.push_back(lease.body);
  return bodies;
}

}  // namespace tidemill
