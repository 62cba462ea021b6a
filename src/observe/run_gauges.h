// The newest figures of a run for Prometheus, from metrics.jsonl, so that a run can be watched from
// outside whichever process serves it.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "core/counters.h"
#include "observe/metrics_series.h"

namespace tidemill {

// tidemill_run_NAME (counters where `about` says that the figure only grows), tidemill_step_NAME,
// tidemill_busy_share{kind,name}, tidemill_queue_depth{topic} and the histograms
// tidemill_run_lag_steps and tidemill_run_span_versions, each with the run's name. Empty before the
// first line.
std::vector<prometheus::MetricFamily> RunFamilies(const std::string& run,
                                                  const MetricsFile& metrics,
                                                  const CounterTable& about);

// The same in Prometheus' text format.
std::string RunGauges(const std::string& run, const MetricsFile& metrics,
                      const CounterTable& about);

}  // namespace tidemill
