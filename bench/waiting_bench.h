// What it saves an episode that its agent does not stand still while tools run: a scripted policy
// over the real rollout and tool loops, with tools that take a fixed time.
//
//   script -> engine that draws a token a tick -> RolloutLoop -> bus -> ToolLoop -> timers
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/status.h"

namespace tidemill {

struct WaitingBenchOptions {
  bool eager = false;       // calls that begin with their last token, against those that begin late
  bool background = false;  // calls in the background, against calls that are waited for
  uint32_t episodes = 2000;
  uint32_t at_once = 64;
};

// One way of running the same script.
struct WaitingArm {
  std::string name;
  uint64_t episodes = 0;
  double median_ms = 0;                                 // of an episode
  double generating_ms = 0, tool_ms = 0, place_ms = 0;  // means
  std::string timeline;                                 // of one episode
};

struct WaitingReport {
  std::string title;
  WaitingArm without, with;
  uint64_t same = 0;      // episodes that are the same bit for bit, but for their times
  bool compared = false;  // they have to be
  std::string measure;    // what the bounds are on
  double value = 0, at_least = 0, at_most = 0;  // of `with`; a bound of 0: none
  double blocking = 0, blocking_at_least = 0;   // of `without`; likewise
};

struct WaitingBenchReport {
  std::vector<WaitingReport> reports;

  std::string ToText() const;
  std::string ToJson() const;  // one object, no line end
  // Which bound was missed; empty: none.
  std::vector<std::string> Misses() const;
};

Result<WaitingBenchReport> RunWaitingBench(const WaitingBenchOptions& options);

}  // namespace tidemill
