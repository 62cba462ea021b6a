// For the importers: rows of a JSONL file, and tasks whose answer is a Python function.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "tasks/import/python_literal.h"
#include "tasks/import/task_import.h"
#include "tasks/object_reader.h"

namespace tidemill {

// Calls `read` with each line's value; what it returns gets file and line.
Status ForEachLine(const std::string& path,
                   const std::function<Status(const nlohmann::json& value)>& read);
// Calls `read` with each object of the file; what it adds to the reader's errors, and fields it did
// not ask for, end the import with file and line.
Status ForEachRow(
    const std::string& path,
    const std::function<Status(ObjectReader& row, const nlohmann::json& object)>& read);

struct PythonTaskParts {
  std::string id;
  std::string text;                     // what is asked
  std::vector<std::string> assertions;  // the first is shown, all are graded
  std::string setup;                    // code behind the answer
  std::string tag;
};

// kInvalid: an assertion that cannot be split into a call and a value.
Result<v1::Task> PythonTask(const PythonTaskParts& parts, const ImportOptions& options);

// Each format's importer.
Result<ImportedTasks> ImportMbpp(const std::string& path, const ImportOptions& options);
Result<ImportedTasks> ImportHumanEval(const std::string& path, const ImportOptions& options);
Result<ImportedTasks> ImportPyfunc(const std::string& path, const ImportOptions& options);
Result<ImportedTasks> ImportHarbor(const std::string& path, const ImportOptions& options);
Result<ImportedTasks> ImportSwebench(const std::string& path, const ImportOptions& options);
Result<ImportedTasks> ImportNemoGym(const std::string& path, const ImportOptions& options);
Result<ImportedTasks> ImportVerifiers(const std::string& path, const ImportOptions& options);

}  // namespace tidemill
