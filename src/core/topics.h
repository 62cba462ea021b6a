// The topics of the bus: each is one row of kTopics. From the table they are opened, kept inside a
// process or put on Redis, shown with their depth, and named in docs/messages.md.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace tidemill {

inline constexpr std::string_view kGroupsTopic = "rollout.groups";
inline constexpr std::string_view kDispatchTopic = "dispatch.reports";
inline constexpr std::string_view kGivenUpTopic = "dispatch.given_up";
inline constexpr std::string_view kSiblingsWantedTopic = "dispatch.siblings";
inline constexpr std::string_view kSiblingsTopic = "live.siblings";
inline constexpr std::string_view kTrajectoriesTopic = "replay.trajectories";
inline constexpr std::string_view kVersionsTopic = "replay.versions";
inline constexpr std::string_view kBatchRequestsTopic = "replay.requests";
inline constexpr std::string_view kLiveEventsTopic = "replay.live";
inline constexpr std::string_view kMemoryGroupsTopic = "memory.groups";
inline constexpr std::string_view kMemoryCasesTopic = "memory.cases";
inline constexpr std::string_view kSkillsGroupsTopic = "skills.groups";
inline constexpr std::string_view kSkillsCasesTopic = "skills.cases";
inline constexpr std::string_view kScoreTopic = "reward.score";
inline constexpr std::string_view kJudgeTopic = "judge.requests";
inline constexpr std::string_view kTeacherTopic = "teacher.requests";
inline constexpr std::string_view kToolsCompileTopic = "tools.compile";
inline constexpr std::string_view kToolsTestsTopic = "tools.run_tests";
inline constexpr std::string_view kToolsLintTopic = "tools.lint";
inline constexpr std::string_view kToolsFilesTopic = "tools.files";
inline constexpr std::string_view kToolsCommandTopic = "tools.command";
inline constexpr std::string_view kToolsShellTopic = "tools.shell";
inline constexpr std::string_view kToolsGradeTopic = "tools.grade";

struct TopicRow {
  std::string_view name;
  std::string_view message;   // of proto/tidemill.proto
  std::string_view consumer;  // the loop that receives it
  std::string_view producers;
  // Between loops of the learner's process: never on Redis, gone with the process.
  bool inside = false;
  // Deliveries before a message is a dead letter; 0: as configured. A group outlives many workers:
  // whoever gets it too often reports it as given up, which a dead letter would not.
  uint32_t max_deliveries = 0;
};

inline constexpr TopicRow kTopics[] = {
    {kGroupsTopic, "GroupLease", "rollout", "dispatcher memory skills", false, 100},
    {kGivenUpTopic, "GroupGivenUp", "dispatcher", "rollout"},
    {kTrajectoriesTopic, "Trajectory", "replay", "rollout"},
    {kScoreTopic, "ScoreRequest", "reward", "replay"},
    {kJudgeTopic, "JudgeRequest", "judge", "reward live"},
    {kToolsCompileTopic, "ToolRequest", "tools", "rollout reward"},
    {kToolsTestsTopic, "ToolRequest", "tools", "rollout"},
    {kToolsLintTopic, "ToolRequest", "tools", "rollout reward"},
    {kToolsFilesTopic, "ToolRequest", "tools", "rollout"},
    {kToolsCommandTopic, "ToolRequest", "tools", "rollout"},
    {kToolsShellTopic, "ToolRequest", "tools", "rollout"},
    {kToolsGradeTopic, "ToolRequest", "tools", "reward"},
    {kDispatchTopic, "DispatchEvent", "dispatcher", "replay learner", true},
    {kSiblingsWantedTopic, "SiblingsWanted", "dispatcher", "live", true},
    {kSiblingsTopic, "SiblingsDone", "live", "dispatcher", true},
    {kVersionsTopic, "VersionPublished", "replay", "learner", true},
    {kBatchRequestsTopic, "BatchRequest", "replay", "learner", true},
    {kTeacherTopic, "TeacherRequest", "teacher", "replay", true},
    {kLiveEventsTopic, "LiveEvent", "replay", "live", true},
    {kMemoryGroupsTopic, "GroupLease", "memory", "dispatcher skills", true},
    {kMemoryCasesTopic, "CaseRecord", "memory", "replay", true},
    {kSkillsGroupsTopic, "GroupLease", "skills", "dispatcher", true},
    {kSkillsCasesTopic, "CaseRecord", "skills", "replay", true},
};

// Whether the loop receives from the topic or sends to it.
constexpr bool TakesPart(const TopicRow& row, std::string_view loop) {
  if (row.consumer == loop) return true;
  for (size_t at = row.producers.find(loop); at != std::string_view::npos;
       at = row.producers.find(loop, at + 1)) {
    const size_t end = at + loop.size();
    const bool begins = at == 0 || row.producers[at - 1] == ' ';
    if (begins && (end == row.producers.size() || row.producers[end] == ' ')) return true;
  }
  return false;
}

// Whether what is on the topic is work of tool workers: what they are scaled by. Cancellations are
// not, which lie on topics of their own until their worker reads them.
constexpr bool IsToolWork(std::string_view topic) {
  for (const TopicRow& row : kTopics) {
    if (row.name == topic) return row.consumer == "tools";
  }
  return false;
}

// Where one tool worker hears which episodes were given up (ToolCancel). Each has its own, because
// a message on a shared topic reaches only one of them.
inline std::string ToolCancelTopic(std::string_view worker) {
  return "tools.cancel." + std::string(worker);
}

// Where one tool worker gets the calls of episodes whose box it holds.
inline std::string ToolBoxTopic(std::string_view worker) {
  return "tools.box." + std::string(worker);
}

// The inbox in which a worker's loop gets the answers it is owed.
inline std::string InboxTopic(std::string_view worker, std::string_view loop) {
  return "inbox." + std::string(worker) + "." + std::string(loop);
}

}  // namespace tidemill
