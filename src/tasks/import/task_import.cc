#include "tasks/import/task_import.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tasks/import/import_rows.h"

namespace tidemill {
namespace {

constexpr size_t kRowBytesMax = size_t{16} << 20;
constexpr uint32_t kWallFactor = 5;  // a busy machine is no reason to fail

struct Importer {
  std::string_view format;
  Result<ImportedTasks> (*import)(const std::string&, const ImportOptions&);
};
constexpr Importer kImporters[] = {{"mbpp", ImportMbpp},          {"humaneval", ImportHumanEval},
                                   {"pyfunc", ImportPyfunc},      {"harbor", ImportHarbor},
                                   {"swebench", ImportSwebench},  {"nemo-gym", ImportNemoGym},
                                   {"verifiers", ImportVerifiers}};

}  // namespace

std::vector<std::string> ImportFormats() {
  std::vector<std::string> formats;
  for (const Importer& importer : kImporters) formats.emplace_back(importer.format);
  return formats;
}

Result<ImportedTasks> ImportTasks(std::string_view format, const std::string& source,
                                  const ImportOptions& options) {
  for (const Importer& importer : kImporters) {
    if (importer.format != format) continue;
    TM_ASSIGN_OR_RETURN(ImportedTasks imported, importer.import(source, options));
    if (imported.tasks.empty()) {
      return Invalid(source + ": contains no task" +
                     (options.split.empty() ? "" : " of the split " + options.split));
    }
    for (ImportedTask& one : imported.tasks) {
      if (one.solution.empty() || one.task.answer_file().empty()) continue;
      one.task.mutable_solution()->set_answer(one.solution);
    }
    return imported;
  }
  return Invalid("no importer for the format \"" + std::string(format) + "\"");
}

Status ForEachLine(const std::string& path,
                   const std::function<Status(const nlohmann::json& value)>& read) {
  std::ifstream input(path, std::ios::binary);
  if (!input) return NotFound(path + ": no such file, or not readable");
  std::string line;
  for (size_t number = 1; std::getline(input, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path + ":" + std::to_string(number);
    if (line.size() > kRowBytesMax) return Invalid(where + ": the line is too long");
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_discarded()) return Invalid(where + ": is not JSON");
    TM_RETURN_IF_ERROR(read(object).WithContext(where));
  }
  return Ok();
}

Status ForEachRow(
    const std::string& path,
    const std::function<Status(ObjectReader& row, const nlohmann::json& object)>& read) {
  return ForEachLine(path, [&](const nlohmann::json& object) -> Status {
    std::vector<std::string> errors;
    ObjectReader row(object, "", errors);
    Status status = row.IsObject() ? read(row, object) : Ok();
    if (errors.empty()) row.RefuseOthers();
    return errors.empty() ? status : Invalid(errors.front());
  });
}

Result<v1::Task> PythonTask(const PythonTaskParts& parts, const ImportOptions& options) {
  v1::Task task;
  task.set_id(parts.id);
  task.set_prompt(parts.text);
  task.set_no_tools(true);
  task.mutable_limits();  // as a task read from a file has them: none of its own
  task.set_answer_file("answer.py");
  if (!parts.setup.empty()) task.set_answer_suffix("\n" + parts.setup + "\n");
  task.add_tags(parts.tag);
  v1::Grading& grading = *task.mutable_grading();
  grading.add_sources("answer.py");
  grading.set_mode(v1::Grading::MODE_PYTHON);
  grading.mutable_limits()->set_cpu_ms(options.cpu_ms);
  grading.mutable_limits()->set_wall_ms(options.cpu_ms * kWallFactor);
  *task.mutable_examples() = grading;
  for (const std::string& text : parts.assertions) {
    const auto assertion = ParseAssertion(text);
    if (!assertion.ok()) return assertion.status().WithContext(text);
    v1::TestCase& test = *grading.add_cases();
    test.set_input(assertion->expression);
    test.set_expected(assertion->expected);
    if (task.examples().cases_size() > 0) continue;
    v1::TestCase& shown = *task.mutable_examples()->add_cases();
    shown = test;
    shown.set_name(text);
  }
  if (grading.cases().empty()) return Invalid("it has no assertion");
  return task;
}

}  // namespace tidemill
