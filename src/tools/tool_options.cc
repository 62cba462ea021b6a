#include "tools/tool_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include "tools/staying_tool.h"
#include "tools/tool_table.h"

#include "core/paths.h"

namespace tidemill {
// The end of the {name} that begins at `at`; npos: none does.
static size_t PlaceholderEnd(const std::string& word, size_t at) {
  return word[at] == '{' ? word.find('}', at) : std::string::npos;
}

std::vector<std::string> CommandTool::Arguments() const {
  std::vector<std::string> names;
  for (const std::string& word : command) {
    for (size_t at = 0; at < word.size(); ++at) {
      const size_t end = PlaceholderEnd(word, at);
      if (end == std::string::npos) continue;
      std::string name = word.substr(at + 1, end - at - 1);
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
      at = end;
    }
  }
  return names;
}

Result<std::vector<std::string>> CommandTool::FillIn(
    const std::map<std::string, std::string>& arguments) const {
  std::vector<std::string> words;
  for (const std::string& word : command) {
    std::string filled;
    for (size_t at = 0; at < word.size();) {
      const size_t end = PlaceholderEnd(word, at);
      if (end == std::string::npos) {
        filled += word[at++];
        continue;
      }
      const std::string name = word.substr(at + 1, end - at - 1);
      const auto found = arguments.find(name);
      if (found == arguments.end()) {
        return Invalid(fmt::format("the argument \"{}\" is missing", name));
      }
      if (found->second.find('\0') != std::string::npos) {
        return Invalid(fmt::format("the argument \"{}\" has a zero byte", name));
      }
      filled += found->second;
      at = end + 1;
    }
    words.push_back(std::move(filled));
  }
  return words;
}

Status CheckToolOptions(const ToolOptions& options) {
  TM_RETURN_IF_ERROR(CheckLimits(options.limits));
  std::set<std::string> names;
  for (const CommandTool& tool : options.commands) {
    const std::string which = fmt::format("tool \"{}\": ", tool.name);
    if (tool.name.empty()) return Invalid("a custom tool needs a name");
    if (FindTool(tool.name) != nullptr)
      return Invalid(which + "the name is that of a built-in tool");
    if (!names.insert(tool.name).second) return Invalid(which + "the name is used twice");
    if (tool.command.empty() || tool.command[0].empty()) {
      return Invalid(which + "\"command\" must have at least one word");
    }
    TM_RETURN_IF_ERROR(CheckStaying(tool).WithContext(which));
    for (const std::string& path : tool.files) {
      TM_RETURN_IF_ERROR(CheckPath(path).WithContext(which));
    }
    TM_RETURN_IF_ERROR(CheckLimits(LimitsFrom(tool.limits, options.limits)).WithContext(which));
  }
  return Ok();
}

}  // namespace tidemill
