#include "tools/tool_options.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <set>

#include "tools/paths.h"

namespace tidemill {
namespace {

class TableReader {
 public:
  TableReader(const toml::table& table, const std::string& file) : table_(table), file_(file) {}

  Status Wrong(const toml::node& node, std::string_view key, std::string_view wanted) const {
    return Invalid(
        fmt::format("{}:{}: \"{}\" must be {}", file_, node.source().begin.line, key, wanted));
  }
  Status Text(std::string_view key, std::string* text) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return Ok();
    if (!node->is_string()) return Wrong(*node, key, "a string");
    *text = **node->as_string();
    return Ok();
  }
  Status Flag(std::string_view key, bool* flag) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return Ok();
    if (!node->is_boolean()) return Wrong(*node, key, "true or false");
    *flag = **node->as_boolean();
    return Ok();
  }
  Status Words(std::string_view key, std::vector<std::string>* words) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return Ok();
    const toml::array* array = node->as_array();
    if (array == nullptr) return Wrong(*node, key, "an array of strings");
    for (const toml::node& word : *array) {
      if (!word.is_string()) return Wrong(word, key, "an array of strings");
      words->push_back(**word.as_string());
    }
    return Ok();
  }
  Status Number(std::string_view key, uint32_t* number) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return Ok();
    const auto value = node->value_exact<int64_t>();
    if (!value || *value <= 0 || *value > 0x7fffffff) {
      return Wrong(*node, key, "a positive whole number");
    }
    *number = static_cast<uint32_t>(*value);
    return Ok();
  }
  Status OnlyKeys(const std::set<std::string_view>& known) const {
    for (const auto& [key, node] : table_) {
      if (known.count(key.str()) == 0) {
        return Invalid(
            fmt::format("{}:{}: unknown key \"{}\"", file_, key.source().begin.line, key.str()));
      }
    }
    return Ok();
  }

 private:
  const toml::table& table_;
  const std::string& file_;
};

Status ReadLimits(const toml::table& table, const std::string& file, v1::Limits* limits) {
  const TableReader reader(table, file);
  TM_RETURN_IF_ERROR(
      reader.OnlyKeys({"wall_ms", "cpu_ms", "memory_mb", "processes", "output_kb", "disk_mb"}));
  uint32_t wall = 0, cpu = 0, memory = 0, processes = 0, output = 0, disk = 0;
  TM_RETURN_IF_ERROR(reader.Number("wall_ms", &wall));
  TM_RETURN_IF_ERROR(reader.Number("cpu_ms", &cpu));
  TM_RETURN_IF_ERROR(reader.Number("memory_mb", &memory));
  TM_RETURN_IF_ERROR(reader.Number("processes", &processes));
  TM_RETURN_IF_ERROR(reader.Number("output_kb", &output));
  TM_RETURN_IF_ERROR(reader.Number("disk_mb", &disk));
  limits->set_wall_ms(wall);
  limits->set_cpu_ms(cpu);
  limits->set_memory_mb(memory);
  limits->set_processes(processes);
  limits->set_output_kb(output);
  limits->set_disk_mb(disk);
  return Ok();
}

Result<CommandTool> ReadTool(const toml::table& table, const std::string& file) {
  const TableReader reader(table, file);
  CommandTool tool;
  std::string parser = "text";
  TM_RETURN_IF_ERROR(
      reader.OnlyKeys({"name", "description", "command", "files", "parser", "limits", "changes"}));
  TM_RETURN_IF_ERROR(reader.Text("name", &tool.name));
  TM_RETURN_IF_ERROR(reader.Text("description", &tool.description));
  TM_RETURN_IF_ERROR(reader.Text("parser", &parser));
  TM_RETURN_IF_ERROR(reader.Words("command", &tool.command));
  TM_RETURN_IF_ERROR(reader.Words("files", &tool.files));
  TM_RETURN_IF_ERROR(reader.Flag("changes", &tool.changes));
  if (parser == "diagnostics") {
    tool.parser = CommandTool::Parser::kDiagnostics;
  } else if (parser == "tests") {
    tool.parser = CommandTool::Parser::kTests;
  } else if (parser != "text") {
    return reader.Wrong(*table.get("parser"), "parser", "\"text\", \"diagnostics\" or \"tests\"");
  }
  if (const toml::node* limits = table.get("limits")) {
    if (!limits->is_table()) return reader.Wrong(*limits, "limits", "a table");
    TM_RETURN_IF_ERROR(ReadLimits(*limits->as_table(), file, &tool.limits));
  }
  return tool;
}

}  // namespace

bool IsBuiltInTool(std::string_view name) {
  for (const std::string_view built_in :
       {"compile", "run_tests", "lint", "write_file", "read_file", "apply_patch", "grade"}) {
    if (name == built_in) return true;
  }
  return false;
}

Status CheckToolOptions(const ToolOptions& options) {
  TM_RETURN_IF_ERROR(CheckLimits(options.limits));
  std::set<std::string> names;
  for (const CommandTool& tool : options.commands) {
    const std::string which = fmt::format("tool \"{}\": ", tool.name);
    if (tool.name.empty()) return Invalid("a configured tool needs a name");
    if (IsBuiltInTool(tool.name)) return Invalid(which + "the name is a built-in tool's");
    if (!names.insert(tool.name).second) return Invalid(which + "the name is used twice");
    if (tool.command.empty() || tool.command[0].empty()) {
      return Invalid(which + "\"command\" must have at least one word");
    }
    for (const std::string& path : tool.files) {
      TM_RETURN_IF_ERROR(CheckPath(path).WithContext(which));
    }
    TM_RETURN_IF_ERROR(CheckLimits(LimitsFrom(tool.limits, options.limits)).WithContext(which));
  }
  return Ok();
}

Result<std::vector<CommandTool>> ParseCommandTools(const std::string& text,
                                                   const std::string& file_name) {
  toml::table root;
  try {
    root = toml::parse(text, file_name);
  } catch (const toml::parse_error& error) {
    return Invalid(
        fmt::format("{}:{}: {}", file_name, error.source().begin.line, error.description()));
  }
  std::vector<CommandTool> tools;
  const toml::node* node = root.get("tool");
  if (node == nullptr) return tools;
  const toml::array* tables = node->as_array();
  if (tables == nullptr || !tables->is_homogeneous<toml::table>()) {
    return Invalid(
        fmt::format("{}:{}: tools are written as [[tool]]", file_name, node->source().begin.line));
  }
  for (const toml::node& one : *tables) {
    TM_ASSIGN_OR_RETURN(CommandTool tool, ReadTool(*one.as_table(), file_name));
    tools.push_back(std::move(tool));
  }
  ToolOptions check;
  check.commands = tools;
  TM_RETURN_IF_ERROR(CheckToolOptions(check).WithContext(file_name));
  return tools;
}

}  // namespace tidemill
