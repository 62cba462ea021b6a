// The built-in tools: each is one row (tool_table.cc). From the table come what the model is told,
// where a request goes, and which calls must not run side by side. A tool that needs no box is the
// function of its row; what the others do is in tool_runner.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/status.h"
#include "core/topics.h"
#include "tools/arguments.h"
#include "tools/workspace.h"

namespace tidemill {

// Changes or shows the workspace; gives the text for the model. kInvalid: the call was wrong; the
// workspace is as it was.
using FileTool = Result<std::string> (*)(const Arguments& arguments, size_t text_limit,
                                         Workspace* workspace);

struct ToolRow {
  std::string_view name;
  std::string_view topic;
  bool changes = false;  // it may change the workspace
  // The description for the model; empty: the tool is not for agents.
  std::string_view description = {};
  std::string_view parameters_json = {};  // a JSON schema
  bool by_default = true;                 // false: only for tasks that name it
  FileTool run = nullptr;                 // null: it needs a box
};

std::span<const ToolRow> BuiltInToolRows();
// nullptr: it is not built in.
const ToolRow* FindTool(std::string_view name);
// Where requests for a tool go. Any name that is not built in is a configured command.
std::string_view ToolTopic(std::string_view name);

}  // namespace tidemill
