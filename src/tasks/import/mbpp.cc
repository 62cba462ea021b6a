// MBPP as its authors publish it (text, code, task_id, test_list, ..) and the sanitized edition
// (prompt, test_imports, ..). The split is the authors' own, by task id. Of the tests, test_list is
// graded, as in the papers; challenge_test_list is left out.
#include <nlohmann/json.hpp>

#include "tasks/import/import_rows.h"

namespace tidemill {
namespace {

std::string_view MbppSplit(uint32_t id) {
  if (id <= 10) return "prompt";
  if (id <= 510) return "test";
  if (id <= 600) return "validation";
  return "train";
}

std::string WithoutCarriageReturns(std::string text) {
  std::erase(text, '\r');
  return text;
}

}  // namespace

Result<ImportedTasks> ImportMbpp(const std::string& path, const ImportOptions& options) {
  ImportedTasks out;
  const auto read = [&](ObjectReader& row, const nlohmann::json&) -> Status {
    PythonTaskParts parts;
    uint32_t id = 0;
    std::string code, ignored;
    row.Require("task_id", "a whole number");
    row.Require("test_list", "a list of assertions");
    row.Unsigned("task_id", 1'000'000, id);
    row.String("text", parts.text);
    row.String("prompt", parts.text);
    row.String("code", code);
    row.String("test_setup_code", parts.setup);
    row.String("source_file", ignored);
    row.Strings("test_list",
                [&](std::string test) { parts.assertions.push_back(std::move(test)); });
    row.Strings("challenge_test_list", [](const std::string&) {});
    row.Strings("test_imports", [&](const std::string& line) { parts.setup += line + "\n"; });
    if (parts.text.empty()) row.Fail("text", "is missing");
    if (!options.split.empty() && MbppSplit(id) != options.split) return Ok();
    parts.id = "mbpp-" + std::to_string(id);
    parts.tag = "mbpp";
    parts.setup = WithoutCarriageReturns(parts.setup);
    if (!parts.assertions.empty()) {
      parts.text += "\nYour code should pass this test:\n" + parts.assertions.front();
    }
    out.Add(parts.id, PythonTask(parts, options), WithoutCarriageReturns(code));
    return Ok();
  };
  TM_RETURN_IF_ERROR(ForEachRow(path, read));
  return out;
}

}  // namespace tidemill
