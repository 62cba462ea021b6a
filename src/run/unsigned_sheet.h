// What an unsigned run sheet may not say: whoever can write to Redis can write one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "run/run_config.h"

namespace tidemill {

// The keys that name what the machine of a worker of this role runs, asks, writes or shows to a
// box, of those that the config sets; a list's as "list[].key".
std::vector<std::string> KeysThatAct(std::string_view role, const RunConfig& config);

}  // namespace tidemill
