// The settings of an executor's tools.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/tidemill.pb.h"
#include "tools/box/box.h"
#include "tools/box/limits.h"
#include "tools/mcp_servers.h"
#include "tools/workspace.h"

namespace tidemill {

// A tool a config file declares.
struct CommandTool {
  std::string name;
  std::string description;
  // The words of the command line. "{x}" stands for the call's argument x; it becomes (part of) one
  // word, never more, and no shell sees it.
  std::vector<std::string> command;
  std::vector<std::string> files;  // of the workspace that enter the box; empty: all
  // The command is a program outside the box that is asked line by line (tools/staying_tool.h).
  bool stays = false;
  std::string parameters;  // of one that stays: a JSON schema; empty: it takes no arguments
  enum class Parser {
    kText,         // output as it is
    kDiagnostics,  // file:line:column: severity: message
    kTests,        // lines "ok NAME" and "not ok NAME", as in the Test Anything Protocol
  };
  Parser parser = Parser::kText;
  v1::Limits limits;    // 0: the defaults
  bool changes = true;  // the files it leaves are the workspace afterwards

  // The names of the arguments the command line asks for, in order.
  std::vector<std::string> Arguments() const;
  // The command line of a call. kInvalid names the argument that is missing or cannot be a word.
  Result<std::vector<std::string>> FillIn(
      const std::map<std::string, std::string>& arguments) const;
};

struct ToolOptions {
  BoxLimits limits;                // where neither the request nor the tool says
  std::string c_compiler = "gcc";  // "tcc" where fast matters
  std::string cxx_compiler = "g++";
  std::string python = "python3";
  size_t text_limit = 4000;  // bytes of ToolResult.text where the request does not say
  size_t failures_max = 5;   // failed tests a result names
  CollectLimits collect;
  WorkspaceLimits workspace;
  std::vector<CommandTool> commands;
  std::vector<McpServerSpec> mcp{};
  std::string worker;  // ToolResult.worker
  // Runs the visible tests of a program without a box: one line of output for each case, exactly as
  // a box would give them. Nothing: a box is needed. May be empty; called by any slot.
  std::function<std::optional<std::vector<std::string>>(const v1::Grading& grading,
                                                        const std::string& source)>
      interpret = {};
  // The answer of a tool that stays to one question, both JSON objects. Called by any slot, which
  // waits. Empty: there are none here.
  std::function<Result<std::string>(const std::string& tool, const std::string& question)> ask = {};
};

// A name that is built in, an empty command, a limit out of range: kInvalid.
Status CheckToolOptions(const ToolOptions& options);

}  // namespace tidemill
