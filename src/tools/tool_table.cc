#include "tools/tool_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/paths.h"
#include "core/text.h"
#include "tools/diagnostics.h"
#include "tools/patch.h"

namespace tidemill {
namespace {

constexpr size_t kFileBytesMax = 4 << 20;

Result<std::string> WriteFile(const Arguments& arguments, size_t, Workspace* workspace) {
  TM_ASSIGN_OR_RETURN(const std::string path, arguments.Need("path"));
  TM_ASSIGN_OR_RETURN(std::string content, arguments.Need("content"));
  TM_RETURN_IF_ERROR(CheckPath(path));
  if (content.size() > kFileBytesMax) return Invalid("the content is larger than 4 MiB");
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (workspace->count(path.substr(0, slash)) != 0) {
      return Invalid(fmt::format("\"{}\" is a file, not a folder", path.substr(0, slash)));
    }
  }
  const auto below = workspace->lower_bound(path + "/");
  if (below != workspace->end() && below->first.starts_with(path + "/")) {
    return Invalid(fmt::format("\"{}\" is a folder", path));
  }
  const std::string text = fmt::format("wrote {} bytes to {}\n", content.size(), path);
  (*workspace)[path].content = std::move(content);
  return text;
}

Result<std::string> ReadFile(const Arguments& arguments, size_t text_limit, Workspace* workspace) {
  TM_ASSIGN_OR_RETURN(const std::string path, arguments.Need("path"));
  TM_ASSIGN_OR_RETURN(const auto first, arguments.Number("first_line"));
  TM_ASSIGN_OR_RETURN(const auto last, arguments.Number("last_line"));
  const auto found = workspace->find(path);
  if (found == workspace->end()) {
    std::string names;
    for (const auto& [name, file] : *workspace) names += (names.empty() ? "" : ", ") + name;
    return Invalid(
        fmt::format("there is no file \"{}\"; there are: {}", ToUtf8(path), CutText(names, 1000)));
  }
  std::string_view rest = found->second.content;
  if (!first && !last) return CutText(ToUtf8(rest), text_limit);
  std::string shown;
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    if (line >= first.value_or(1) && line <= last.value_or(INT64_MAX)) shown += rest.substr(0, end);
    rest.remove_prefix(end);
  }
  return CutText(ToUtf8(shown), text_limit);
}

Result<std::string> RunPatch(const Arguments& arguments, size_t text_limit, Workspace* workspace) {
  TM_ASSIGN_OR_RETURN(const std::string patch, arguments.Need("patch"));
  TM_ASSIGN_OR_RETURN(const PatchReport report, ApplyPatch(patch, workspace));
  return CutText(report.summary, text_limit);
}

constexpr std::string_view kFilesSchema =
    R"({"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}}}})";

constexpr ToolRow kBuiltIn[] = {
    {"compile", kToolsCompileTopic, false,
     "Compile files of the workspace; returns the compiler's diagnostics.", kFilesSchema},
    {"run_tests", kToolsTestsTopic, false,
     "Build and run the visible tests; returns how many passed and the first failures.",
     R"({"type":"object","properties":{}})"},
    {"lint", kToolsLintTopic, false,
     "Check files of the workspace for suspicious code; returns the findings.", kFilesSchema},
    {"write_file", kToolsFilesTopic, true, "Write a file of the workspace.",
     R"({"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]})",
     /*by_default=*/true, WriteFile},
    {"read_file", kToolsFilesTopic, false,
     "Read a file of the workspace, or some of its lines (from 1, both included).",
     R"({"type":"object","properties":{"path":{"type":"string"},"first_line":{"type":"integer"},"last_line":{"type":"integer"}},"required":["path"]})",
     /*by_default=*/true, ReadFile},
    {"apply_patch", kToolsFilesTopic, true, "Apply a unified diff to the workspace.",
     R"({"type":"object","properties":{"patch":{"type":"string"}},"required":["patch"]})",
     /*by_default=*/true, RunPatch},
    {"bash", kToolsShellTopic, true,
     "Run a command in a shell in the workspace. Files, variables, the folder and background "
     "processes stay from call to call.",
     R"({"type":"object","properties":{"command":{"type":"string"},"timeout_s":{"type":"integer"}},"required":["command"]})",
     /*by_default=*/false},
    {"grade", kToolsGradeTopic},
};

}  // namespace

std::span<const ToolRow> BuiltInToolRows() {
  return kBuiltIn;
}

const ToolRow* FindTool(std::string_view name) {
  for (const ToolRow& row : kBuiltIn) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string_view ToolTopic(std::string_view name) {
  const ToolRow* row = FindTool(name);
  return row == nullptr ? kToolsCommandTopic : row->topic;
}

}  // namespace tidemill
