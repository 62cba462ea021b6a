// The difference between two states of a workspace, for people.
#pragma once

#include <string>

#include "tools/workspace.h"

namespace tidemill {

// A unified diff of at most about `bytes_max` bytes; where it is cut its last line says so. Files
// that are not text, or too large to compare, are named only.
std::string WorkspaceDiff(const Workspace& before, const Workspace& after, size_t bytes_max);

}  // namespace tidemill
