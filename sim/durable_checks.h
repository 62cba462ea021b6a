// Read off the simulated database: the memory a new process finds, and what a run may
// leave behind.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "sim/draw.h"
#include "sim/sim_keys.h"
#include "sim/sim_store.h"
#include "sim/simulation.h"

namespace tidemill::sim {

// Why the record must not be a case; empty: nothing is against it.
std::string WrongCase(const SimDurable& durable, const v1::CaseRecord& record);

// Memory over the crashes of its process: in every second run, and where its bug is planted.
struct MemoryWatch {
  explicit MemoryWatch(const SimOptions& options)
      : bug(options.bug),
        on(options.seed % 2 == 0 || bug == Bug::kOwedCaseForgotten),
        with_keys(WithKeys(options.seed)) {}

  // The process begins: what the database gives memory, and who reads prompts. With the planted bug
  // nobody looks for verdicts whose episode never became a case.
  const CasesState* Begin(const SimDurable& durable, World& world, ProcessId process);
  // At the end: what was owed at the last beginning and is still no case; empty: nothing.
  std::string Failure(const SimDurable& durable, Time now) const;

  const Bug bug;
  const bool on, with_keys;
  std::unique_ptr<SimKeys> keys;  // of the process that runs; null: without keys
  CasesState found;
  std::set<SimDurable::EpisodeKey> owed;
  Time began = Time::max();
};

// Episodes issued and not given back may never exceed what the bound allows after so many steps,
// counted from the database. Each policy has a gate and steps of its own: a crash may take one of
// them back behind what was issued for it, and then another may still issue. A team's groups stand
// in the gates of all of its policies.
void CheckGate(const SimStore& store, const Draw& draw, const std::string& policy, uint64_t steps,
               bool team, World& world);

// Over the whole line that survives, groups were used no more often than inserts paid for.
void CheckUses(const SimStore& store, const ReplayConfig& replay, uint64_t learners, World& world);

// Whether every trajectory is of a group that was issued.
bool KnowsEveryGroup(const SimDurable& durable);

// Failures of tools in all that is stored.
void CountCalls(const SimDurable& durable, SimReport& report);

}  // namespace tidemill::sim
