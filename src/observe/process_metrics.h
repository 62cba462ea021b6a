// What every process of Tidemill tells Prometheus about itself.
#pragma once

#include "core/metrics.h"

namespace tidemill {

// tidemill_build_info and the process_* figures Prometheus' own libraries have.
void AddProcessMetrics(Metrics& metrics);

}  // namespace tidemill
