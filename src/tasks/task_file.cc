#include "tasks/task_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "tasks/line_file.h"
#include "tasks/task_json.h"

namespace tidemill {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 32;

// Parses one line; a name given twice in an object, which the library would pass over in silence,
// is an error like any other.
bool ParseLine(const std::string& line, json& out, std::string& error) {
  std::vector<std::set<std::string>> names;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDepthMax && error.empty()) {
      error = "is nested deeper than " + std::to_string(kDepthMax) + " levels";
    }
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key &&
        !names.back().insert(value.get<std::string>()).second && error.empty()) {
      error = "the name " + value.dump() + " appears twice in one object";
    }
    return error.empty();
  };
  try {
    out = json::parse(line, watch);
  } catch (const json::exception& failure) {
    if (error.empty()) {
      // Behind the library's own numbering: "[json.exception.parse_error.101] parse error at ..".
      const std::string what = failure.what();
      const size_t bracket = what.find("] ");
      error = "is not JSON: " + (bracket == std::string::npos ? what : what.substr(bracket + 2));
    }
  }
  return error.empty();
}

bool Blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

TaskFileContents ParseTasks(std::istream& input, std::string_view name) {
  TaskFileContents contents;
  std::unordered_map<std::string, size_t> line_of_id;
  std::string line;
  for (size_t number = 1; std::getline(input, line); ++number) {
    if (Blank(line)) continue;
    std::vector<std::string> errors;
    json object;
    std::string wrong;
    v1::Task task;
    if (line.size() > kTaskLineBytesMax) {
      errors.push_back("the line: is longer than " + std::to_string(kTaskLineBytesMax) + " bytes");
    } else if (!ParseLine(line, object, wrong)) {
      errors.push_back("the line: " + wrong);
    } else {
      task = TaskFromJson(object, errors);
    }
    if (!task.id().empty()) {
      const auto [first, is_new] = line_of_id.emplace(task.id(), number);
      if (!is_new) {
        errors.push_back("id: \"" + task.id() + "\" was used in line " +
                         std::to_string(first->second) + " already; ids must be unique");
      }
    }
    for (const std::string& error : errors) {
      if (contents.errors.size() == kTaskErrorsMax) {
        contents.more_errors = true;
        return contents;
      }
      contents.errors.push_back(std::string(name) + ":" + std::to_string(number) + ": " + error);
    }
    if (errors.empty()) contents.tasks.push_back(std::move(task));
  }
  return contents;
}

Result<std::vector<v1::Task>> ReadTaskFile(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  if (!input || std::filesystem::is_directory(path)) {
    return NotFound(path +
                    ": cannot be read: " + (input ? "it is a directory" : std::strerror(errno)));
  }
  TaskFileContents contents = ParseTasks(input, path);
  if (input.bad()) return Unavailable(path + ": reading it failed");
  if (!contents.errors.empty()) {
    const size_t further = contents.errors.size() - 1;
    std::string message = contents.errors.front();
    if (further > 0) {
      message += " (and " + std::string(contents.more_errors ? "at least " : "") +
                 std::to_string(further) + " more; see tidemill tasks check)";
    }
    return Invalid(std::move(message));
  }
  if (contents.tasks.empty()) return Invalid(path + ": contains no task");
  return std::move(contents.tasks);
}

std::string TaskToJsonLine(const v1::Task& task) {
  return TaskToJson(task).dump(-1, ' ', false, json::error_handler_t::replace);
}

Status WriteTaskFile(const std::string& path, const std::vector<v1::Task>& tasks) {
  return WriteLines(path, tasks.size(), [&](size_t i) { return TaskToJsonLine(tasks[i]); });
}

}  // namespace tidemill
