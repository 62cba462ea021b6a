// Questions the page asks of run.db that RunReader has no answer to: many rows at once, for plots.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "store/sqlite.h"

namespace tidemill {

// A task's history in equal intervals of the run's time.
struct TaskTrend {
  std::string task;
  uint64_t scored = 0;
  uint64_t solved = 0;
  double reward_sum = 0;
  int64_t last_ms = 0;
  std::vector<uint32_t> scored_by_interval;
  std::vector<uint32_t> solved_by_interval;
};
struct TaskTrends {
  int64_t first_ms = 0;
  int64_t last_ms = 0;
  std::vector<TaskTrend> tasks;  // by name
};
// Of scored episodes with this purpose.
Result<TaskTrends> ReadTaskTrends(Database& db, v1::Purpose purpose, uint32_t intervals);

// The times of an episode's activities.
struct EpisodeSpan {
  std::string task;
  uint64_t group = 0;
  uint32_t member = 0;
  v1::Purpose purpose = v1::PURPOSE_UNSPECIFIED;
  std::string worker;
  int64_t started_ms = 0;
  int64_t finished_ms = 0;
  int64_t scored_ms = 0;  // 0: not scored (yet)
  bool solved = false;
  struct Turn {
    int64_t started_ms = 0;
    int64_t finished_ms = 0;
    int64_t observed_ms = 0;  // 0: no tool was called
  };
  std::vector<Turn> turns;
};
struct StepSpan {
  uint64_t step = 0;
  uint64_t version = 0;
  int64_t at_ms = 0;
  std::string metrics_json;
};
struct Timeline {
  int64_t from_ms = 0;  // later than asked where there was too much to show
  int64_t to_ms = 0;
  int64_t first_ms = 0;  // of the whole run
  int64_t last_ms = 0;
  int64_t last_step_ms = 0;  // 0: no step yet
  bool cut = false;
  std::vector<EpisodeSpan> episodes;  // by their start
  std::vector<StepSpan> steps;
};
struct TimelineWindow {
  int64_t from_ms = 0;  // 0: `to` less a minute
  int64_t to_ms = 0;    // 0: the end of the run so far
  uint64_t episodes_max = 400;
};
Result<Timeline> ReadTimeline(Database& db, const TimelineWindow& window);

// Fates with their reasons, most frequent first.
struct FateCount {
  std::string fate;
  std::string reason;
  uint64_t episodes = 0;
};
Result<std::vector<FateCount>> ReadFates(Database& db, uint64_t limit);

// Whether anything was stored since: a number that differs then.
Result<int64_t> ChangeMark(Database& db);

}  // namespace tidemill
