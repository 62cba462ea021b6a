// What bounds an episode, and how it uses its tools.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "proto/tidemill.pb.h"
#include "rollout/rollout_config.h"

namespace tidemill {

// Whether calls of a tool may go on in the background.
enum class BackgroundUse : uint8_t { kNever, kAllowed, kAlways };

struct BackgroundTool {
  BackgroundUse use = BackgroundUse::kNever;
  // The files that a call leaves are applied where nothing that it touches changed since it began;
  // else they are dropped.
  bool keeps_files = false;
};

// Of one episode.
struct BackgroundLimits {
  uint32_t jobs = 8;                          // that run at once
  size_t held_bytes = size_t{64} << 10;       // of results that wait for delivery
  Duration total = std::chrono::minutes(10);  // that all of them may run, added up
};

struct EpisodeLimits : RolloutConfig {
  Duration retry_delay = milliseconds(200);  // doubles with every retry
  std::vector<std::string> reading_tools;    // configured ones that leave the files as they are
  std::map<std::string, BackgroundTool> background;  // by tool; others: never
  BackgroundLimits jobs;
};

// A tool of which nothing is known may change files.
bool ChangesFiles(const EpisodeLimits& limits, const std::string& tool);
BackgroundTool BackgroundOf(const EpisodeLimits& limits, const std::string& tool);

struct ToolCallOrder {
  v1::ToolRequest request;
  Duration delay{0};  // send it after this
};

}  // namespace tidemill
