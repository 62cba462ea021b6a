// What a config says of files and folders of the machine that boxes see.
#pragma once

#include <string>

#include "core/status.h"
#include "tools/box/box_host.h"

namespace tidemill {

// "FROM" or "FROM:TO". kInvalid: no absolute paths, nothing there, or a place that each box has of
// its own.
Result<BoxMount> ParseBoxMount(const std::string& text);

}  // namespace tidemill
