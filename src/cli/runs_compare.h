// tidemill runs compare: two runs side by side, their results, how they learned, and what their
// configs have different.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/status.h"
#include "store/run_directory.h"

namespace tidemill {

// The compared parts of a run: its summary, means over its last steps ("steps_mean") and its
// config.
Result<nlohmann::ordered_json> ComparedRun(const RunDirectory& directory);

// A table with one row for each figure: results, evaluations, training, then the config keys that
// differ.
std::string CompareText(const nlohmann::ordered_json& first, const nlohmann::ordered_json& second);

// The summary of a run; of one without (it runs, or was killed) what its database and its metrics
// know, with the state "running" or "unfinished".
Result<std::string> SummaryNow(const RunDirectory& directory, bool writing);

}  // namespace tidemill
