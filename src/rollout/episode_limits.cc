#include "rollout/episode_limits.h"

#include <algorithm>

#include "tools/tool_table.h"

namespace tidemill {

bool ChangesFiles(const EpisodeLimits& limits, const std::string& tool) {
  if (const ToolRow* row = FindTool(tool)) return row->changes;
  const std::vector<std::string>& reading = limits.reading_tools;
  return std::find(reading.begin(), reading.end(), tool) == reading.end();
}

BackgroundTool BackgroundOf(const EpisodeLimits& limits, const std::string& tool) {
  const auto known = limits.background.find(tool);
  return known == limits.background.end() ? BackgroundTool() : known->second;
}

}  // namespace tidemill
