// What [[tools.mcp]] tables say: which servers there are, what tools of theirs agents have, and
// what they are told of them.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "mcp/mcp_messages.h"
#include "tools/mcp_servers.h"
#include "tools/tool_config.h"

namespace tidemill {

struct OfferedMcpTool {
  size_t server = 0;  // the table's place
  std::string own_name;
  McpTool shown;  // with the agents' name of it
};

// Of servers that were asked (ListMcpTools). kInvalid names the table: a name that another tool
// has, that no model can call, or that the server does not list.
Result<std::vector<OfferedMcpTool>> OfferedMcpTools(const ToolConfig& config);

// As calls need them. kInvalid: a mount or a key that is none.
Result<std::vector<McpServerSpec>> McpServersFrom(const ToolConfig& config);

// Asks each server whose tools are not listed yet, and lists them in its table. Starts programs,
// and waits. kUnavailable: a server that cannot be reached, with why.
Status ListMcpTools(ToolConfig& config);

}  // namespace tidemill
