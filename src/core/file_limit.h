// How many files and sockets the process may have open.
#pragma once

#include <cstddef>

namespace tidemill {

// Raises the process's soft limit to `wanted`, as far as its hard limit allows. The limit now,
// which may be lower or higher than that.
size_t RaiseFileLimit(size_t wanted);

}  // namespace tidemill
