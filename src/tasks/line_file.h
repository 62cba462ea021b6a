// Files of lines, one JSON object each.
#pragma once

#include <functional>
#include <string>

#include "core/status.h"

namespace tidemill {

// Writes line(0), line(1), .. line(count - 1) under another name first, so that the file is whole
// or what it was before.
Status WriteLines(const std::string& path, size_t count,
                  const std::function<std::string(size_t)>& line);

}  // namespace tidemill
