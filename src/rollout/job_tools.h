// The tools with which an agent looks after its background calls: wait, cancel, jobs. They run in
// the episode itself and go to no tool worker.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "rollout/episode_limits.h"
#include "rollout/protocol.h"

namespace tidemill {

inline constexpr std::string_view kWaitTool = "wait";
inline constexpr std::string_view kCancelTool = "cancel";
inline constexpr std::string_view kJobsTool = "jobs";

bool IsJobTool(std::string_view tool);

// As the model is told of them.
const std::vector<ToolDescription>& JobTools();
// A tool as the model is told of it where its calls may, or always do, go on in the background.
// kInvalid: its parameters are no JSON object, or have a "background" of their own.
Result<ToolDescription> WithBackground(ToolDescription tool, BackgroundUse use);

struct WaitOrder {
  std::vector<std::string> handles;  // empty: whatever runs
  bool any = true;                   // one of them is enough
  std::optional<Duration> limit;
};
// kInvalid, in words for the agent.
Result<WaitOrder> ReadWait(const std::string& arguments_json);
// The handles to cancel, one at least.
Result<std::vector<std::string>> ReadCancel(const std::string& arguments_json);

// Whether the arguments ask for the background; the wish is taken out of them. Arguments that are
// no JSON object, or wish for something else, stay as they are: the tool says so.
bool TakeBackgroundWish(std::string& arguments_json);

}  // namespace tidemill
