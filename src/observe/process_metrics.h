// The Prometheus metrics of every process of Tidemill.
#pragma once

#include "core/metrics.h"

namespace tidemill {

// tidemill_build_info and the process_* figures Prometheus' own libraries have.
void AddProcessMetrics(Metrics& metrics);

}  // namespace tidemill
