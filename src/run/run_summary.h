// The result of a run: summary.json, and the same facts as text.
#pragma once

#include <optional>
#include <string>

#include "core/status.h"
#include "run/fleet_account.h"
#include "run/run_snapshot.h"
#include "store/run_directory.h"

namespace tidemill {

struct RunOutcome {
  Status status;                      // of the loops
  bool interrupted = false;           // a person asked it to stop
  std::string state = {};             // instead of what these two say: of a run that has no end yet
  RunSnapshot last;                   // of the whole run, what was before a resume included
  RunSnapshot here;                   // of this process alone
  std::optional<FleetAccount> fleet;  // what other processes did; `last` has it already
  std::string fleet_silent;           // why there is none though there should be
};

// From the run's database and its last snapshot, as JSON. See docs/config.md for every field.
Result<std::string> MakeSummary(const RunDirectory& directory, const RunOutcome& outcome);

// The summary of a run that was done and has all of `steps` steps; kNotFound: it can go on.
Result<std::string> FinishedSummary(const RunDirectory& directory, uint64_t steps);

// The summary for people.
std::string SummaryText(const std::string& summary_json);

// pass@k from n samples of which c solve the task: 1 - C(n-c,k)/C(n,k) (Chen et al. 2021).
double PassAtK(uint64_t n, uint64_t c, uint64_t k);

}  // namespace tidemill
