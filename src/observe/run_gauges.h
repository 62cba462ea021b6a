// The newest figures of a run as Prometheus text, from metrics.jsonl, so that a run can be watched
// from outside whichever process serves it.
#pragma once

#include <string>

#include "observe/metrics_series.h"

namespace tidemill {

// tidemill_run_NAME, tidemill_step_NAME, tidemill_busy_share{kind,name} and
// tidemill_queue_depth{topic}, each with the run's name. Empty before the first line.
std::string RunGauges(const std::string& run, const MetricsFile& metrics);

}  // namespace tidemill
