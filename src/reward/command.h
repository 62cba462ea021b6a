// Runs a program of the user's: text in on its standard input, text out of its standard output, in
// a process group of its own that is gone when this returns.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct CommandLimits {
  std::chrono::milliseconds time{30000};
  size_t output_bytes = 256 << 10;
};

// Its standard output. kInvalid: there is no such program. kTimeout, kFull (too much output) or
// kUnavailable (another exit status than 0; with the end of its standard error).
Result<std::string> RunCommand(const std::vector<std::string>& command, const std::string& input,
                               const CommandLimits& limits);

}  // namespace tidemill
