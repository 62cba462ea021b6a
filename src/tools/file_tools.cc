#include "tools/file_tools.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/paths.h"
#include "core/text.h"
#include "tools/arguments.h"
#include "tools/diagnostics.h"
#include "tools/patch.h"

namespace tidemill {
namespace {

constexpr size_t kFileBytesMax = 4 << 20;

Result<std::string> WriteFile(const Arguments& arguments, Workspace* workspace) {
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

Result<std::string> ReadFile(const Arguments& arguments, size_t text_limit,
                             const Workspace& workspace) {
  TM_ASSIGN_OR_RETURN(const std::string path, arguments.Need("path"));
  TM_ASSIGN_OR_RETURN(const auto first, arguments.Number("first_line"));
  TM_ASSIGN_OR_RETURN(const auto last, arguments.Number("last_line"));
  const auto found = workspace.find(path);
  if (found == workspace.end()) {
    std::string names;
    for (const auto& [name, file] : workspace) names += (names.empty() ? "" : ", ") + name;
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

}  // namespace

Result<std::string> RunFileTool(std::string_view tool, const std::string& arguments_json,
                                size_t text_limit, Workspace* workspace) {
  TM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(arguments_json));
  if (tool == "write_file") return WriteFile(arguments, workspace);
  if (tool == "read_file") return ReadFile(arguments, text_limit, *workspace);
  if (tool != "apply_patch") return Invalid(fmt::format("there is no tool \"{}\"", tool));
  TM_ASSIGN_OR_RETURN(const std::string patch, arguments.Need("patch"));
  TM_ASSIGN_OR_RETURN(const PatchReport report, ApplyPatch(patch, workspace));
  return CutText(report.summary, text_limit);
}

}  // namespace tidemill
