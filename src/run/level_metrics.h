// metrics.jsonl of a run that goes on, made level with run.db, which alone is synced.
//
//   metrics.jsonl + run.db -> the lines that hold, each step once -> metrics.jsonl, TensorBoard
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/status.h"
#include "run/run_journal.h"
#include "store/run_reader.h"

namespace tidemill {

// The run goes on after `step`. Lines of later steps (and of their checkpoints, versions and
// evaluations) go, because those steps are made anew. Steps and evaluations that run.db has and no
// line tells of, because the process was killed in between, are put in their place. `take` gets
// every line that is there then, in order. The file is whole or as before.
Status LevelMetrics(const std::string& metrics_path, uint64_t step, RunReader& reader,
                    const std::function<Status(const JournalEntry&)>& take);

}  // namespace tidemill
