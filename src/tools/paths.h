// Names of files in a workspace, and text that may come from anywhere.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// Relative, '/'-separated, without empty, "." or ".." parts, valid UTF-8 without control
// characters, at most 1000 bytes. kInvalid names the path and what is wrong with it.
Status CheckPath(std::string_view path);

// Whatever is no valid UTF-8 becomes U+FFFD; NULs too, because programs that read JSON choke on
// them.
std::string ToUtf8(std::string_view bytes);

bool IsUtf8(std::string_view bytes);

}  // namespace tidemill
