// A file written in any order, by any number of threads, that survives a crash all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/fd.h"
#include "core/status.h"

namespace tidemill {

// As WriteFileAtomically: `fill` writes to the descriptor of a new file (errors call it `name`),
// which then is synced and takes the place of `path`. On failure, also of `fill`, what was at
// `path` is untouched and the new file is gone.
using FileFill = std::function<Status(const Fd& fd, const std::string& name)>;
Status ReplaceFile(const std::string& path, const FileFill& fill);

// All of `bytes` at `offset` of the file. Threads may write to different places of it at once.
Status WriteAllAt(const Fd& fd, uint64_t offset, std::string_view bytes, const std::string& path);

}  // namespace tidemill
