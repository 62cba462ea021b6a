// Who works on a run: every worker writes a Heartbeat every few seconds; one that stops writing is
// shown as lost for an hour and then forgotten. What it counted is added to the totals of the run
// and stays there, whatever becomes of the worker.
//
//   worker --Beat()--> roster on the broker --Workers()--> status, metrics, autoscaler
//                      totals on the broker --Totals()---> status, summary.json
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

inline constexpr Duration kBeatEvery = std::chrono::seconds(2);
inline constexpr Duration kWorkerLostAfter = std::chrono::seconds(10);
inline constexpr Duration kWorkerForgottenAfter = std::chrono::hours(1);

// "tools-HOST-4711": a worker on this host.
std::string WorkerName(std::string_view role, int64_t pid);

struct RosterEntry {
  v1::Heartbeat beat;  // the last one
  Duration age{};      // of it

  bool lost() const { return age > kWorkerLostAfter; }
};

// "tools/calls" -> how many, by all processes of the role there ever were in this run.
using RosterTotals = std::map<std::string, double>;

// Each call waits for the broker. Belongs to one thread.
class Roster {
 public:
  virtual ~Roster() = default;
  // `beat.worker` names the entry. `counts` is what this process (worker and started_ms) counted
  // since it began; told twice, it counts once.
  virtual Status Beat(const v1::Heartbeat& beat, const RosterTotals& counts = {}) = 0;
  // The worker left in order: it is not lost.
  virtual Status Leave(std::string_view worker) = 0;
  // By role, then name.
  virtual Result<std::vector<RosterEntry>> Workers() = 0;
  virtual Result<RosterTotals> Totals() = 0;
};

// What a broker holds of a heartbeat; none, with a warning, where it cannot be read.
std::optional<RosterEntry> ReadBeat(std::string_view bytes, Duration age);
// By role, then name.
void SortRoster(std::vector<RosterEntry>& workers);

// kInvalid where a worker that is there speaks another version of the messages; names it.
Status CheckSameMessages(const std::vector<RosterEntry>& workers, const v1::Heartbeat& newcomer);

}  // namespace tidemill
