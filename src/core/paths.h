// Names of files in a workspace.
#pragma once

#include <string_view>

#include "core/status.h"

namespace tidemill {

// Relative, '/'-separated, without empty, "." or ".." parts, valid UTF-8 without control
// characters, at most 1000 bytes, 255 a part. kInvalid names the path and what is wrong with it.
Status CheckPath(std::string_view path);

}  // namespace tidemill
