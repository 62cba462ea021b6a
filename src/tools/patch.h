// Applies a unified diff to a workspace. No I/O; input of any kind.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "tools/workspace.h"

namespace tidemill {

// The effect of a patch, for people: "solution.c: 2 hunks", "new.h: created", "old.h: removed", one
// a line.
struct PatchReport {
  size_t files = 0;
  std::string summary;
};

// All or nothing: on failure the workspace is as it was. kInvalid says which line of the patch is
// wrong, or which hunk does not match which file. A hunk whose lines are not where it says is
// looked for elsewhere in the file and taken if there is exactly one place.
Result<PatchReport> ApplyPatch(std::string_view patch, Workspace* workspace);

}  // namespace tidemill
