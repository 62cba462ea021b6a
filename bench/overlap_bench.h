// The gain of overlapping generation, tools and learning: the same work in the three modes, with
// real tools and with waiting added to them.
//
//   policy and tasks -> a sweep of each mode's batch and concurrency -> each mode's best, all seeds
//
// Best is the most episodes a second among the settings that learn about as much from the same
// number of episodes: a batch so large that nothing is learned would win every comparison of speed.
//
// Every run is `tidemill train` in a process of its own; its metrics say how long the steps took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

// A batch of `batch` episodes a step, up to `in_flight` at once.
struct OverlapSetting {
  std::string mode;
  uint64_t batch = 0;
  uint64_t in_flight = 0;
  bool operator==(const OverlapSetting&) const = default;
};

struct OverlapOptions {
  std::string program;  // tidemill itself
  std::string folder;   // for everything made; must not exist
  std::string model;    // empty: one is warmed up on the built-in family first
  std::string config;   // a TOML file under the bench's own settings; empty: none
  uint64_t episodes = 3072;
  uint64_t eval_tasks = 200;
  std::vector<uint64_t> seeds = {1, 2, 3, 4, 5};
  std::vector<std::string> mixes = {"none", "200ms", "1s"};
  std::vector<std::string> modes = {"sync", "one-step", "async"};
  std::vector<std::string> sets{};  // "learner.learning_rate=1e-5": keys of every run
  // Of the modes named here, instead of the usual sweep: several of a mode are swept themselves.
  std::vector<OverlapSetting> settings{};
};

struct OverlapRun {
  OverlapSetting setting;
  std::string mix;
  uint64_t seed = 0;
  double seconds = 0;  // to the last step
  double episodes_per_s = 0;
  double tokens_per_s = 0;
  double lag = 0;  // in steps, mean over tokens
  double ess = 0;  // effective sample size, share
  double pass_rate = 0;
  std::string busiest;  // port
  double busiest_share = 0;
  std::string busy_json;  // every loop and port
};

struct OverlapReport {
  std::vector<OverlapRun> sweep;
  std::vector<OverlapRun> runs;

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
};

// Says on standard error what it does. kInvalid: unknown mix; kUnavailable: a run failed, with the
// file of its output.
Result<OverlapReport> RunOverlapBench(const OverlapOptions& options);

}  // namespace tidemill
