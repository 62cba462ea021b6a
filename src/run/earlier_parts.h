// Totals of a resumed run's earlier processes, which go on.
//
//   metrics.jsonl (last tick), run.db -> EarlierParts -> RunSnapshot of the whole run
#pragma once

#include <cstdint>
#include <string>

#include "core/journal.h"
#include "core/status.h"
#include "run/run_snapshot.h"
#include "run/stored_totals.h"

namespace tidemill {

class EarlierParts {
 public:
  // Of a new run: nothing was before.
  EarlierParts() = default;
  // The totals of the newest tick in a run's metrics.jsonl. No file, or no tick in its last
  // megabytes: nothing was before.
  static Result<EarlierParts> Read(const std::string& metrics_path);

  // Totals from the run's database replace the others.
  void Take(const StoredTotals& stored) { stored.PutInto(last_); }

  // Makes a snapshot of this process one of the whole run: seconds, totals, and busy shares as
  // parts of the whole time. Figures that other processes count are left alone.
  void AddTo(RunSnapshot& snapshot) const;
  // The run as its newest tick tells, without its queues.
  RunSnapshot Last() const;

 private:
  double seconds_ = 0;
  Numbers last_;
};

}  // namespace tidemill
