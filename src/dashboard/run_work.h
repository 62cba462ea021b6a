// The work of a run's loops and ports in a window of time, from its metrics.jsonl.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/status.h"

namespace tidemill {

inline constexpr int64_t kWorkWindowMs = 600'000;  // longer windows have too much to say

// {"spans": [{"who": "trainer", "doing": "publishing", "from_ms", "to_ms", "step", "version"}, ..],
//  "busy": {"from_ms": [..], "to_ms": [..], "columns": {"port_engine": [0.93, ..], ..}}}
// A column has the share of the time between two ticks (a second) in which a loop or port worked.
// Windows over kWorkWindowMs give empty lists.
Result<nlohmann::ordered_json> ReadWork(const std::string& metrics_path, int64_t from_ms,
                                        int64_t to_ms);

}  // namespace tidemill
