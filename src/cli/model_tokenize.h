// `tidemill model tokenize`: text to ids, or ids to text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tidemill {

// Give exactly one of `text_file` ("-" is standard input) and `ids`. Prints the ids of the text
// (special tokens in it are recognised, none are added) or the text of the ids; with `json` {"ids":
// [..]} or
// {"text": ".."}. Returns the exit status: 0, 1 when a file cannot be read or is wrong, 2 for wrong
// words.
int RunModelTokenize(const std::string& model_dir, const std::optional<std::string>& text_file,
                     const std::optional<std::vector<int32_t>>& ids, bool json);

}  // namespace tidemill
