// HumanEval (task_id, prompt, entry_point, canonical_solution, test). Its check(candidate) is taken
// apart into assertions of the form candidate(..) == literal; a task with any other statement that
// could fail is skipped by name.
#include <nlohmann/json.hpp>

#include "tasks/import/import_rows.h"

namespace tidemill {
namespace {

std::string_view Indented(std::string_view line) {
  const size_t text = line.find_first_not_of(" \t");
  return text == std::string_view::npos ? std::string_view() : line.substr(text);
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool Opens(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += std::string_view("([{").find(c) != std::string_view::npos ? 1 : 0;
    depth -= std::string_view(")]}").find(c) != std::string_view::npos ? 1 : 0;
  }
  return depth > 0;
}

// The assertions of check(), one text each, with the function's own name.
Result<std::vector<std::string>> Assertions(const std::string& test, const std::string& function) {
  const size_t check = test.find("def check(");
  if (check == std::string::npos) return Invalid("\"test\" defines no check()");
  std::vector<std::string> out;
  std::string open;  // a statement that goes on in the next line
  size_t at = test.find('\n', check);
  while (at != std::string::npos && at + 1 < test.size()) {
    const size_t end = test.find('\n', at + 1);
    const std::string_view whole =
        std::string_view(test).substr(at + 1, end == std::string::npos ? end : end - at - 1);
    at = end;
    const std::string_view line = Indented(whole);
    if (open.empty() && (line.empty() || line.starts_with("#"))) continue;
    if (open.empty() && line.size() == whole.size()) break;  // behind the function
    open += (open.empty() ? "" : " ") + std::string(line);
    if (Opens(open)) continue;
    if (open.starts_with("assert True")) {
      open.clear();
      continue;
    }
    if (!open.starts_with("assert ")) return Invalid("check() has the statement \"" + open + "\"");
    ReplaceAll(open, "candidate(", function + "(");
    out.push_back(std::move(open));
    open.clear();
  }
  return out;
}

}  // namespace

Result<ImportedTasks> ImportHumanEval(const std::string& path, const ImportOptions& options) {
  if (!options.split.empty() && options.split != "test") {
    return Invalid("humaneval has only the split test, not \"" + options.split + "\"");
  }
  ImportedTasks out;
  const auto read = [&](ObjectReader& row, const nlohmann::json&) -> Status {
    PythonTaskParts parts;
    std::string prompt, function, solution, test;
    for (const char* name : {"task_id", "prompt", "entry_point", "test"}) {
      row.Require(name, "a field of every row");
    }
    row.String("task_id", parts.id);
    row.String("prompt", prompt);
    row.String("entry_point", function);
    row.String("canonical_solution", solution);
    row.String("test", test);
    for (char& c : parts.id) {
      if (c == '/') c = '-';
    }
    parts.tag = "humaneval";
    parts.text = "Complete this Python function. Answer with the whole function.\n```python\n" +
                 prompt + "\n```";
    auto assertions = Assertions(test, function);
    Result<v1::Task> task = assertions.status().ok() ? Result<v1::Task>(Invalid("no assertion"))
                                                     : Result<v1::Task>(assertions.status());
    if (assertions.ok()) {
      parts.assertions = std::move(*assertions);
      task = PythonTask(parts, options);
    }
    out.Add(parts.id, std::move(task), prompt + solution);
    return Ok();
  };
  TM_RETURN_IF_ERROR(ForEachRow(path, read));
  return out;
}

}  // namespace tidemill
