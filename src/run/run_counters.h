// Every figure the loops of a run keep, by its key in metrics.jsonl and the summary: what it means,
// and whether it only grows.
#pragma once

#include "core/counters.h"

namespace tidemill {

const CounterTable& RunCounters();

}  // namespace tidemill
