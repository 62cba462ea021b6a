// A tool that is a program of the user's outside the box, asked line by line: what it is asked, and
// what its answer means. It is trusted as the config is; what the model passes to it is data.
//
//   {"tool", "arguments", "task", "group", "member", "files": {path: text}}
//   -> {"text": "..", "failed": false, "files": {path: text or null}}
#pragma once

#include <string>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tools/tool_options.h"
#include "tools/workspace.h"

namespace tidemill {

// kInvalid: keys of the tool that do not go together, or parameters that are no JSON schema of an
// object.
Status CheckStaying(const CommandTool& tool);

// Of the workspace those files that are text. kInvalid: the model's arguments are no JSON object,
// or one that the schema requires is missing or has another type.
Result<std::string> ToolQuestion(const v1::ToolRequest& request, const CommandTool& tool,
                                 const Workspace& workspace);

// Changes the workspace where the tool may. kUnavailable: an answer that is none; nothing changed.
Status TakeToolAnswer(const std::string& line, const CommandTool& tool, Workspace& workspace,
                      v1::ToolResult* result);

}  // namespace tidemill
