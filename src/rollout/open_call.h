// One call of a tool until its result is there, over all its tries.
#pragma once

#include <optional>
#include <string>

#include "rollout/episode_limits.h"

namespace tidemill {

struct OpenCall {
  v1::ToolRequest request;  // of the newest try
  v1::ToolResult result;    // when it is done
  uint32_t retries = 0;
  int64_t asked_ms = 0;      // the first try; 0: not yet
  int64_t answered_ms = 0;   // 0: not yet
  double queue_ms = 0;       // of the last try: until a tool worker had room
  uint32_t asked_token = 0;  // of the turn, drawn when it was asked; 0: after the turn's end
  bool done = false;
  bool skipped = false;  // given up after failures of ours, the agent told
};

// The request for a call of this task's agent, but for who asks, when, and the workspace.
v1::ToolRequest RequestFor(const v1::Task& task, const v1::TrajectoryId& episode,
                           const std::string& tool, std::string arguments_json);
// It failed through us.
bool FailedThroughUs(const v1::ToolResult& result);
// The next try, under a new id, after a delay. Nothing: it had as many as it may.
std::optional<ToolCallOrder> TryAgain(OpenCall& call, const EpisodeLimits& limits, int64_t now_ms);
// Takes the result. A call given up has words for the agent instead.
void TakeResult(OpenCall& call, const v1::ToolResult& result, int64_t now_ms);
// A result that no tool gave.
void AnswerAtOnce(OpenCall& call, v1::Outcome outcome, std::string text, int64_t now_ms);
// What the record says of it; without the workspace's hash.
v1::ToolCall RecordOf(const OpenCall& call);

}  // namespace tidemill
