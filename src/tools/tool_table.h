// The built-in tools: each is one row. From the table come what the model is told, where a request
// goes, and which calls must not run side by side. What a tool does is in tool_runner.cc.
#pragma once

#include <string_view>

#include "core/topics.h"

namespace tidemill {

struct ToolRow {
  std::string_view name;
  std::string_view topic;
  bool changes = false;  // it may change the workspace
  // The description for the model; empty: the tool is not for agents.
  std::string_view description = {};
  std::string_view parameters_json = {};  // a JSON schema
  bool by_default = true;                 // false: only for tasks that name it
};

inline constexpr std::string_view kFilesSchema =
    R"({"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}}}})";

inline constexpr ToolRow kTools[] = {
    {"compile", kToolsCompileTopic, false,
     "Compile files of the workspace; returns the compiler's diagnostics.", kFilesSchema},
    {"run_tests", kToolsTestsTopic, false,
     "Build and run the visible tests; returns how many passed and the first failures.",
     R"({"type":"object","properties":{}})"},
    {"lint", kToolsLintTopic, false,
     "Check files of the workspace for suspicious code; returns the findings.", kFilesSchema},
    {"write_file", kToolsFilesTopic, true, "Write a file of the workspace.",
     R"({"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]})"},
    {"read_file", kToolsFilesTopic, false,
     "Read a file of the workspace, or some of its lines (from 1, both included).",
     R"({"type":"object","properties":{"path":{"type":"string"},"first_line":{"type":"integer"},"last_line":{"type":"integer"}},"required":["path"]})"},
    {"apply_patch", kToolsFilesTopic, true, "Apply a unified diff to the workspace.",
     R"({"type":"object","properties":{"patch":{"type":"string"}},"required":["patch"]})"},
    {"bash", kToolsShellTopic, true,
     "Run a command in a shell in the workspace. Files, variables, the folder and background "
     "processes stay from call to call.",
     R"({"type":"object","properties":{"command":{"type":"string"},"timeout_s":{"type":"integer"}},"required":["command"]})",
     /*by_default=*/false},
    {"grade", kToolsGradeTopic},
};

// nullptr: it is not built in.
constexpr const ToolRow* FindTool(std::string_view name) {
  for (const ToolRow& row : kTools) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Where requests for a tool go. Any name that is not built in is a configured command.
constexpr std::string_view ToolTopic(std::string_view name) {
  const ToolRow* row = FindTool(name);
  return row == nullptr ? kToolsCommandTopic : row->topic;
}

}  // namespace tidemill
