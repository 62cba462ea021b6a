// Takes what was deleted off the bus: samples of sessions that ended among the dead letters.
#pragma once

#include <cstdint>
#include <vector>

#include "bus/bus.h"
#include "core/status.h"

namespace tidemill {

// How many letters are gone: samples of these sessions, and those that cannot be read, which may be
// theirs. All other dead letters stay. kUnavailable: the bus does not hand them out.
Result<uint64_t> EraseDeadLetters(Bus& bus, const std::vector<uint64_t>& sessions);

}  // namespace tidemill
