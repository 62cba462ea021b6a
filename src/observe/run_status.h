// The state of a run on its broker in one look: who works on it, how deep its topics are, what
// died. Shown by `tidemill status`, by the page (fleet_view.h) and, as metrics, by the workers that
// watch their run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bus/run_inspector.h"
#include "core/metrics.h"

namespace tidemill {

struct RunStatus {
  std::string run;
  std::vector<RosterEntry> workers;
  std::vector<TopicState> topics;
  uint64_t dead_letters = 0;
  uint64_t policy_version = 0;             // the newest any worker has
  std::map<std::string, double> failures;  // retries, skipped and stale, of all there ever were

  size_t lost() const;
  // How many versions a worker is behind; 0 where it has none.
  uint64_t Lag(const v1::Heartbeat& worker) const;
  uint64_t LagMax() const;
  // Ready and leased of the topics that tool workers serve.
  uint64_t ToolBacklog() const;
};

// Belongs to one thread.
class RunStatusReader {
 public:
  static Result<RunStatusReader> Connect(const std::string& url,
                                         Duration timeout = std::chrono::seconds(5));
  Result<std::vector<std::string>> Runs() { return inspector_->Runs(); }
  // kNotFound: there is no such run; names those there are.
  Result<RunStatus> Read(const std::string& run);

 private:
  explicit RunStatusReader(std::unique_ptr<RunInspector> inspector)
      : inspector_(std::move(inspector)) {}
  std::unique_ptr<RunInspector> inspector_;
};

// "here", "leaving" or "lost".
const char* WorkerState(const RosterEntry& entry);

// All of it; figures of the whole, one worker and one topic are the parts.
nlohmann::ordered_json StatusJson(const RunStatus& status);
nlohmann::ordered_json StatusFigures(const RunStatus& status);
nlohmann::ordered_json WorkerJson(const RunStatus& status, const RosterEntry& entry);
nlohmann::ordered_json TopicJson(const TopicState& topic);
std::string StatusText(const RunStatus& status, int64_t now_ms);

// tidemill_topic_*, tidemill_workers, tidemill_dead_letters, .. of the whole run.
void SinkRunStatus(const RunStatus& status, MetricSink& sink);
// Adds a source of these. While the broker does not answer there is only tidemill_broker_up 0.
void WatchRun(const std::string& url, const std::string& run, Metrics& metrics);

}  // namespace tidemill
