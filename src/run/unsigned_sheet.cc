#include "run/unsigned_sheet.h"

#include <algorithm>

namespace tidemill {
namespace {

struct ActingKey {
  std::string_view role;
  const char* key;
  bool set;
};

template <typename Table>
bool Any(const std::vector<Table>& tables, bool (*sets)(const Table&)) {
  return std::any_of(tables.begin(), tables.end(), sets);
}

}  // namespace

std::vector<std::string> KeysThatAct(std::string_view role, const RunConfig& config) {
  const auto& environments = config.environments;
  const auto& judges = config.reward.judges;
  using Environment = EnvironmentConfig;
  const ActingKey keys[] = {
      {"rollout", "agent.command", !config.agent.command.empty()},
      {"rollout", "agent.preset", !config.agent.preset.empty()},
      {"rollout", "agent.mounts", !config.agent.mounts.empty()},
      {"rollout", "environment[].command",
       Any<Environment>(environments, [](auto& one) { return !one.command.empty(); })},
      {"rollout", "environment[].urls",
       Any<Environment>(environments, [](auto& one) { return !one.urls.empty(); })},
      {"rollout", "engine.command", !config.engine.command.empty()},
      {"rollout", "engine.urls", !config.engine.urls.empty()},
      {"rollout", "engine.folder", !config.engine.folder.empty()},
      {"rollout", "tools.mcp[].command",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.command.empty(); })},
      {"rollout", "tools.mcp[].url",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.url.empty(); })},
      {"rollout", "tools.mcp[].key_file",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.key_file.empty(); })},
      {"rollout", "tools.mcp[].mounts",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.mounts.empty(); })},
      {"rollout", "tools.roots", !config.tools.roots.empty()},
      {"rollout", "tools.own_user", config.tools.own_user},
      {"tools", "tools.command[].command",
       Any<CommandConfig>(config.tools.command, [](auto& one) { return !one.command.empty(); })},
      {"tools", "tools.mcp[].command",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.command.empty(); })},
      {"tools", "tools.mcp[].url",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.url.empty(); })},
      {"tools", "tools.mcp[].key_file",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.key_file.empty(); })},
      {"tools", "tools.mcp[].mounts",
       Any<McpConfig>(config.tools.mcp, [](auto& one) { return !one.mounts.empty(); })},
      {"tools", "tools.roots", !config.tools.roots.empty()},
      {"tools", "tools.own_user", config.tools.own_user},
      {"reward", "reward.command", !config.reward.command.empty()},
      {"reward", "reward.review_judge", !config.reward.review_judge.empty()},
      {"reward", "reward.proof_command", !config.reward.proof_command.empty()},
      {"reward", "judge[].endpoint",
       Any<JudgeConfig>(judges, [](auto& one) { return !one.endpoint.empty(); })},
      {"reward", "judge[].key_file",
       Any<JudgeConfig>(judges, [](auto& one) { return !one.key_file.empty(); })},
      {"reward", "judge[].key_env",
       Any<JudgeConfig>(judges, [](auto& one) { return !one.key_env.empty(); })},
      {"reward", "judge[].ca_file",
       Any<JudgeConfig>(judges, [](auto& one) { return !one.ca_file.empty(); })},
  };
  std::vector<std::string> names;
  for (const ActingKey& key : keys) {
    if (key.role == role && key.set) names.emplace_back(key.key);
  }
  return names;
}

}  // namespace tidemill
