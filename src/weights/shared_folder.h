// Whether a folder is the learner's own, seen from another host, and not one that has the same
// name there.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

// Leaves the learner's mark in the folder, which is made if it is missing.
Status MarkSharedFolder(const std::string& dir, uint64_t incarnation);
bool IsSharedFolder(const std::string& dir, uint64_t incarnation);

}  // namespace tidemill
