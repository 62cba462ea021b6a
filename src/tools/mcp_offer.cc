#include "tools/mcp_offer.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/text.h"
#include "http/endpoint_key.h"
#include "mcp/mcp_server.h"
#include "tools/box/box_mount.h"
#include "tools/tool_table.h"

namespace tidemill {
namespace {

constexpr size_t kOfferedNameMax = 64;  // of APIs that name tools

std::string TableOf(const McpConfig& keys) {
  return "tools.mcp \"" + keys.name + "\"";
}

bool CanBeCalled(const std::string& name) {
  return !name.empty() && name.size() <= kOfferedNameMax &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

Result<std::vector<McpTool>> ListedTools(const McpConfig& keys) {
  if (keys.listed.empty()) return Invalid("the server was not asked for its tools");
  const RpcJson json = RpcJson::parse(keys.listed, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Invalid("\"listed\" must be JSON");
  TM_ASSIGN_OR_RETURN(McpToolPage page, ReadMcpTools(json));
  if (keys.tools.empty()) return std::move(page.tools);
  std::vector<McpTool> chosen;
  for (const std::string& name : keys.tools) {
    const auto found = std::find_if(page.tools.begin(), page.tools.end(),
                                    [&](const McpTool& tool) { return tool.name == name; });
    if (found == page.tools.end()) {
      std::string names;
      for (const McpTool& tool : page.tools) names += " " + tool.name;
      return Invalid("the server has no tool \"" + name + "\"; it has:" + names);
    }
    chosen.push_back(*found);
  }
  return chosen;
}

Result<McpServerSpec> SpecOf(const ToolConfig& config, const McpConfig& keys) {
  McpServerSpec spec;
  spec.name = keys.name;
  spec.url = keys.url;
  TM_ASSIGN_OR_RETURN(spec.bearer, ReadEndpointKey(keys.key_file, ""));
  spec.program.command = keys.command;
  spec.program.environment = keys.environment;
  const auto or_usual = [](uint32_t own, uint32_t usual) { return own > 0 ? own : usual; };
  BoxLimits& limits = spec.program.limits;
  limits.memory_bytes = uint64_t{or_usual(keys.memory_mb, config.memory_mb)} << 20;
  limits.processes = or_usual(keys.processes, config.processes);
  limits.disk_bytes = uint64_t{or_usual(keys.disk_mb, config.disk_mb)} << 20;
  TM_RETURN_IF_ERROR(CheckLimits(limits));
  for (const std::string& text : keys.mounts) {
    auto mount = ParseBoxMount(text);
    if (!mount.ok()) return mount.status().WithContext("mounts");
    spec.boxes.mounts.push_back(std::move(*mount));
  }
  for (const std::string& word : keys.environment) {
    if (word.find('=') == std::string::npos || word[0] == '=') {
      return Invalid("environment: must be words NAME=value, got \"" + word + "\"");
    }
  }
  spec.boxes.own_user = config.own_user;
  spec.start = keys.start;
  spec.call = milliseconds(or_usual(keys.wall_ms, config.wall_ms));
  spec.slots = keys.slots;
  return spec;
}

}  // namespace

Result<std::vector<OfferedMcpTool>> OfferedMcpTools(const ToolConfig& config) {
  std::vector<OfferedMcpTool> offered;
  std::set<std::string> names;
  for (const CommandConfig& command : config.command) names.insert(command.name);
  for (size_t i = 0; i < config.mcp.size(); ++i) {
    const McpConfig& keys = config.mcp[i];
    auto tools = ListedTools(keys);
    if (!tools.ok()) return tools.status().WithContext(TableOf(keys));
    for (McpTool& tool : *tools) {
      OfferedMcpTool one{.server = i, .own_name = tool.name, .shown = std::move(tool)};
      std::string& name = one.shown.name;
      name = keys.prefix + name;
      if (!CanBeCalled(name)) {
        return Invalid(TableOf(keys) + ": \"" + Beginning(name, 2 * kOfferedNameMax) +
                       "\" is no name that a model can call (letters, digits, _ - . and at most 64 "
                       "of them); leave it out with tools");
      }
      if (FindTool(name) != nullptr || !names.insert(name).second) {
        return Invalid(TableOf(keys) + ": there is another tool \"" + name +
                       "\"; set prefix, or leave it out with tools");
      }
      one.shown.description = ToUtf8(one.shown.description);
      offered.push_back(std::move(one));
    }
  }
  return offered;
}

Result<std::vector<McpServerSpec>> McpServersFrom(const ToolConfig& config) {
  TM_ASSIGN_OR_RETURN(const std::vector<OfferedMcpTool> offered, OfferedMcpTools(config));
  std::vector<McpServerSpec> specs;
  for (const McpConfig& keys : config.mcp) {
    auto spec = SpecOf(config, keys);
    if (!spec.ok()) return spec.status().WithContext(TableOf(keys));
    specs.push_back(std::move(*spec));
  }
  for (const OfferedMcpTool& tool : offered) {
    specs[tool.server].tools[tool.shown.name] = tool.own_name;
  }
  return specs;
}

Status ListMcpTools(ToolConfig& config) {
  for (McpConfig& keys : config.mcp) {
    if (!keys.listed.empty()) continue;
    auto spec = SpecOf(config, keys);
    if (!spec.ok()) return spec.status().WithContext(TableOf(keys));
    McpServer server(std::move(*spec));
    const auto tools = server.Tools();
    if (!tools.ok()) return tools.status().WithContext(TableOf(keys));
    keys.listed = McpToolList(*tools).dump(-1, ' ', false, RpcJson::error_handler_t::replace);
  }
  return OfferedMcpTools(config).status();
}

}  // namespace tidemill
