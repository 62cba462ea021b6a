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

// Files that are no lines of JSON at all, by how they begin; empty: it may be some.
std::string OtherFormat(std::istream& input) {
  char begin[4] = {};
  input.read(begin, sizeof begin);
  const std::string_view bytes(begin, static_cast<size_t>(input.gcount()));
  input.clear();
  input.seekg(0);
  if (bytes.starts_with("\x1f\x8b")) return "is compressed with gzip; unpack it: gunzip -k FILE";
  if (bytes.starts_with("\x28\xb5\x2f\xfd"))
    return "is compressed with zstd; unpack it: unzstd FILE";
  if (bytes.starts_with("PK\x03\x04")) return "is a ZIP archive; unpack it: unzip FILE";
  const bool wide = bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff") ||
                    (bytes.size() >= 2 && (bytes[0] == '\0') != (bytes[1] == '\0'));
  if (wide) return "is UTF-16; task files are UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW";
  return "";
}

// The lines of a file, counted, with a way back.
class TaskLines {
 public:
  explicit TaskLines(std::istream& input) : input_(input) {}

  bool Next(std::string& line) {
    begin_ = end_;
    if (!std::getline(input_, line)) return false;
    end_ += static_cast<std::streamoff>(line.size() + 1);
    ++number_;
    return true;
  }
  size_t number() const { return number_; }  // of the newest line, from 1

  // Whether a value of JSON begins in the newest line and ends in a later one. Then the lines of
  // it have been read.
  bool TakeSpread(bool& list) {
    input_.clear();
    input_.seekg(begin_);
    json value;
    try {
      input_ >> value;
    } catch (const json::exception&) {
      value = nullptr;
    }
    const std::streamoff stop = value.is_structured() ? Place() : 0;
    list = value.is_array();
    if (stop <= end_) return Back(), false;
    size_t further = 0;
    std::string line;
    for (Back(); end_ < stop && std::getline(input_, line); ++further) {
      end_ += static_cast<std::streamoff>(line.size() + 1);
    }
    number_ += further;
    return true;
  }

 private:
  std::streamoff Place() {
    input_.clear();
    return input_.tellg();
  }
  void Back() {
    input_.clear();
    input_.seekg(end_);
  }

  std::istream& input_;
  std::streamoff begin_ = 0, end_ = 0;  // of the newest line
  size_t number_ = 0;
};

// "the object goes on to line 9; ..."
std::string SpreadError(bool list, size_t last) {
  const std::string here =
      " to line " + std::to_string(last) + ", but a task file has one object per line: jq -c ";
  return list ? "the list goes on" + here + "'.[]' FILE > NEW"
              : "the object goes on" + here + ". FILE > NEW";
}

}  // namespace

TaskFileContents ParseTasks(std::istream& input, std::string_view name) {
  TaskFileContents contents;
  if (const std::string other = OtherFormat(input); !other.empty()) {
    contents.errors.push_back(std::string(name) + ": " + other);
    return contents;
  }
  std::unordered_map<std::string, size_t> line_of_id;
  std::string line;
  bool told_spread = false;
  for (TaskLines lines(input); lines.Next(line);) {
    const size_t number = lines.number();
    if (Blank(line)) continue;
    std::vector<std::string> errors;
    json object;
    std::string wrong;
    v1::Task task;
    bool list = false;
    if (line.size() > kTaskLineBytesMax) {
      errors.push_back("the line: is longer than " + std::to_string(kTaskLineBytesMax) + " bytes");
    } else if (ParseLine(line, object, wrong)) {
      task = TaskFromJson(object, errors);
    } else if (!lines.TakeSpread(list)) {
      errors.push_back("the line: " + wrong);
    } else if (!told_spread) {
      told_spread = true;
      errors.push_back(SpreadError(list, lines.number()));
    } else {
      continue;
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
    if (!errors.empty()) continue;
    contents.tasks.push_back(std::move(task));
    contents.lines.push_back(number);
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
