// A call's result as the model reads it: what matters first, within a budget.
#pragma once

#include <string>

#include "proto/tidemill.pb.h"
#include "tools/box/limits.h"

namespace tidemill {

// "stopped: it ran longer than 10 s", for limits and signals; empty for ok and failed.
std::string EndingText(const v1::ToolResult& result, const BoxLimits& limits);

std::string CompileText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes);
std::string LintText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes);
// Passed and total, then the failures there is room for.
std::string TestsText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes);
// Exit status and both outputs.
std::string CommandText(const v1::ToolResult& result, const BoxLimits& limits, size_t bytes);

}  // namespace tidemill
