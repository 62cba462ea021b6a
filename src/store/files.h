// Reading small files and making directories; core/files.h writes them. Errors name the path and
// the system's reason.
#pragma once

#include <string>

#include "core/files.h"
#include "core/status.h"

namespace tidemill {

// kNotFound: no such file. kFull: larger than `bytes_max`.
Result<std::string> ReadWholeFile(const std::string& path, size_t bytes_max);

// Makes the directory and those above it that are missing; each is durable.
Status MakeDirectories(const std::string& path);

}  // namespace tidemill
