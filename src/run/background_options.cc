#include "run/background_options.h"

#include "rollout/job_tools.h"

namespace tidemill {
namespace {

BackgroundUse UseNamed(const std::string& name) {
  if (name == "allowed") return BackgroundUse::kAllowed;
  return name == "always" ? BackgroundUse::kAlways : BackgroundUse::kNever;
}

std::map<std::string, BackgroundTool> ToolsOf(const RunConfig& config) {
  std::map<std::string, BackgroundTool> tools;
  for (const std::string& tool : config.background.allowed) {
    tools[tool] = {.use = BackgroundUse::kAllowed};
  }
  for (const std::string& tool : config.background.always) {
    tools[tool] = {.use = BackgroundUse::kAlways};
  }
  for (const CommandConfig& keys : config.tools.command) {
    const BackgroundUse use = UseNamed(keys.background);
    if (use == BackgroundUse::kNever) continue;
    tools[keys.name] = {.use = use, .keeps_files = keys.changes && keys.background_files};
  }
  return tools;
}

}  // namespace

void SetBackground(const RunConfig& config, EpisodeLimits& limits) {
  const BackgroundConfig& options = config.background;
  limits.background = ToolsOf(config);
  limits.jobs = {
      .jobs = options.jobs, .held_bytes = size_t{options.held_kb} << 10, .total = options.total};
}

Status OfferBackground(const RunConfig& config, std::vector<ToolDescription>& tools) {
  const std::map<std::string, BackgroundTool> background = ToolsOf(config);
  if (background.empty()) return Ok();
  for (ToolDescription& tool : tools) {
    if (IsJobTool(tool.name)) {
      return Invalid("tools.command: \"" + tool.name +
                     "\" is the name of a tool that looks after background calls");
    }
    const auto known = background.find(tool.name);
    if (known == background.end()) continue;
    TM_ASSIGN_OR_RETURN(tool, WithBackground(std::move(tool), known->second.use));
  }
  tools.insert(tools.end(), JobTools().begin(), JobTools().end());
  return Ok();
}

}  // namespace tidemill
