// write_file, read_file and apply_patch: they change or show the workspace and need no box.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "tools/workspace.h"

namespace tidemill {

// Arguments, a JSON object:
//   write_file   path, content
//   read_file    path, [first_line], [last_line]   (from 1, both included)
//   apply_patch  patch                             (a unified diff)
// Gives the text for the model. kInvalid: the call was wrong; the workspace is as it was.
Result<std::string> RunFileTool(std::string_view tool, const std::string& arguments_json,
                                size_t text_limit, Workspace* workspace);

}  // namespace tidemill
