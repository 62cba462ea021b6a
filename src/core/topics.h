// The names of the topics on the bus, in one place.
#pragma once

#include <string>
#include <string_view>

namespace tidemill {

inline constexpr std::string_view kGroupsTopic = "rollout.groups";      // GroupLease
inline constexpr std::string_view kDispatchTopic = "dispatch.reports";  // DispatchEvent
inline constexpr std::string_view kGivenUpTopic =
    "dispatch.given_up";  // DispatchEvent, from rollout
inline constexpr std::string_view kTrajectoriesTopic = "replay.trajectories";  // Trajectory
inline constexpr std::string_view kBatchRequestsTopic = "replay.requests";     // BatchRequest
inline constexpr std::string_view kScoreTopic = "reward.score";                // ScoreRequest

inline constexpr std::string_view kToolsCompileTopic = "tools.compile";
inline constexpr std::string_view kToolsTestsTopic = "tools.run_tests";
inline constexpr std::string_view kToolsLintTopic = "tools.lint";
inline constexpr std::string_view kToolsFilesTopic =
    "tools.files";  // write_file, read_file, apply_patch
inline constexpr std::string_view kToolsCommandTopic = "tools.command";  // tools a config declares
inline constexpr std::string_view kToolsGradeTopic = "tools.grade";

// Where requests for a tool go. Any name that is not built in is a configured command.
inline std::string_view ToolTopic(std::string_view tool) {
  if (tool == "compile") return kToolsCompileTopic;
  if (tool == "run_tests") return kToolsTestsTopic;
  if (tool == "lint") return kToolsLintTopic;
  if (tool == "write_file" || tool == "read_file" || tool == "apply_patch") return kToolsFilesTopic;
  if (tool == "grade") return kToolsGradeTopic;
  return kToolsCommandTopic;
}

// Where one tool worker hears which episodes were given up (ToolCancel). Each has its own, because
// a message on a shared topic reaches only one of them.
inline std::string ToolCancelTopic(std::string_view worker) {
  return "tools.cancel." + std::string(worker);
}

// The inbox in which a worker's loop gets the answers it is owed.
inline std::string InboxTopic(std::string_view worker, std::string_view loop) {
  return "inbox." + std::string(worker) + "." + std::string(loop);
}

}  // namespace tidemill
