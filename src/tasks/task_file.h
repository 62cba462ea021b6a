// Task files: one JSON object a line, to and from v1::Task. docs/tasks.md describes every field.
// file -> lines -> JSON -> fields checked -> v1::Task; everything wrong is told with its line and
// field.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// Bounds of what is read.
inline constexpr size_t kTaskLineBytesMax = size_t{64} << 20;
inline constexpr size_t kTaskErrorsMax = 100;

struct TaskFileContents {
  std::vector<v1::Task> tasks;      // those without errors, in the file's order
  std::vector<size_t> lines;        // of each task, from 1
  std::vector<std::string> errors;  // "tasks.jsonl:14: grading.run: is missing; expected .."
  bool more_errors = false;         // there were more than kTaskErrorsMax; reading stopped there
};

// Reads to the end and tells everything that is wrong; `input` must be able to go back. Empty lines
// are skipped. An object over several lines is one error, and so are further ones together. `name`
// is what errors call the input.
TaskFileContents ParseTasks(std::istream& input, std::string_view name);

// All tasks of a file. kNotFound: no such file; kInvalid: the first thing wrong, and how many more;
// or no task at all.
Result<std::vector<v1::Task>> ReadTaskFile(const std::string& path);

// One line without its end. Reading it back gives an equal task.
std::string TaskToJsonLine(const v1::Task& task);

// Replaces the file as a whole or not at all.
Status WriteTaskFile(const std::string& path, const std::vector<v1::Task>& tasks);

}  // namespace tidemill
