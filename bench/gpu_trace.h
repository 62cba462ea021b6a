// The GPU's work during a part of a measurement, by libtorch's profiler.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/status.h"

namespace tidemill {

void BeginGpuTrace();
// {span_ms, busy_ms, kernels: [{ms, count, name}], gaps: [{ms, count, "before -> after"}]}, the
// costliest first. Kernels that ran beside each other count each.
Result<nlohmann::ordered_json> EndGpuTrace();

}  // namespace tidemill
