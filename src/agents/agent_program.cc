#include "agents/agent_program.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <toml++/toml.h>

#include <filesystem>
#include <set>

#include "core/files.h"
#include "core/paths.h"
#include "core/shipped_files.h"
#include "tools/box/box_mount.h"

namespace tidemill {
namespace {

constexpr size_t kPresetBytesMax = size_t{1} << 20;

// The default limits of an agent.
BoxLimits DefaultLimits() {
  BoxLimits limits;
  limits.wall = std::chrono::minutes(10);
  limits.cpu = std::chrono::minutes(5);
  limits.memory_bytes = uint64_t{1} << 30;
  limits.processes = 256;
  limits.output_bytes = uint64_t{4} << 20;
  limits.disk_bytes = uint64_t{256} << 20;
  return limits;
}

std::vector<std::string> PresetFolders() {
  std::vector<std::string> folders;
  if (const char* own = getenv("TIDEMILL_PRESETS")) folders.emplace_back(own);
  folders.push_back(ShippedFolder("agents"));
  return folders;
}

std::string KnownPresets() {
  std::set<std::string> names;
  for (const std::string& folder : PresetFolders()) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".toml") names.insert(entry.path().stem().string());
    }
  }
  std::string words;
  for (const std::string& name : names) words += (words.empty() ? "" : ", ") + name;
  return words;
}

Status ReadWords(const toml::node& node, const std::string& name, std::vector<std::string>& out) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return Invalid("\"" + name + "\" must be a list of strings");
  for (const toml::node& word : *list) {
    const auto text = word.value<std::string>();
    if (!text) return Invalid("\"" + name + "\" must be a list of strings");
    out.push_back(*text);
  }
  return Ok();
}

Status ReadPresetField(const std::string& name, const toml::node& node, AgentProgram& program) {
  if (name == "command") {
    program.command.clear();
    return ReadWords(node, name, program.command);
  }
  if (name == "environment") return ReadWords(node, name, program.environment);
  if (name == "skills") {
    const auto folder = node.value<std::string>();
    if (!folder || !CheckPath(*folder).ok()) {
      return Invalid("\"skills\" must be a path in the home of the agent");
    }
    program.skills = *folder;
    return Ok();
  }
  if (name == "files") {
    const toml::table* files = node.as_table();
    if (files == nullptr) return Invalid("\"files\" must be a table of contents by path");
    for (const auto& [path, content] : *files) {
      const auto text = content.value<std::string>();
      if (!text) return Invalid("\"files\" must be a table of contents by path");
      program.files[std::string(path.str())] = *text;
    }
    return Ok();
  }
  const auto number = node.value<int64_t>();
  if (!number || *number < 1 || *number > (1 << 30)) {
    return Invalid(
        "\"" + name +
        "\" is no field, or must be a positive number; there are command, "
        "environment, files, skills, wall_ms, cpu_ms, memory_mb, processes, disk_mb and idle_ms");
  }
  const auto value = static_cast<uint64_t>(*number);
  if (name == "wall_ms")
    program.limits.wall = milliseconds(value);
  else if (name == "cpu_ms")
    program.limits.cpu = milliseconds(value);
  else if (name == "memory_mb")
    program.limits.memory_bytes = value << 20;
  else if (name == "processes")
    program.limits.processes = value;
  else if (name == "disk_mb")
    program.limits.disk_bytes = value << 20;
  else if (name == "idle_ms")
    program.idle = milliseconds(value);
  else
    return Invalid("there is no field \"" + name + "\"");
  return Ok();
}

v1::Limits LimitsOf(const AgentConfig& keys) {
  v1::Limits limits;
  limits.set_wall_ms(keys.wall_ms);
  limits.set_cpu_ms(keys.cpu_ms);
  limits.set_memory_mb(keys.memory_mb);
  limits.set_processes(keys.processes);
  limits.set_output_kb(keys.output_kb);
  limits.set_disk_mb(keys.disk_mb);
  return limits;
}

}  // namespace

Result<std::string> FindPreset(const std::string& name) {
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".toml");
  std::error_code error;
  if (is_path) {
    if (std::filesystem::exists(name, error)) return name;
    return NotFound("agent.preset: there is no file " + name);
  }
  for (const std::string& folder : PresetFolders()) {
    const std::string path = folder + "/" + name + ".toml";
    if (std::filesystem::exists(path, error)) return path;
  }
  return NotFound("agent.preset: there is no \"" + name + "\"; there are " + KnownPresets());
}

Status ReadPreset(const std::string& path, AgentProgram& program) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kPresetBytesMax));
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return Invalid(fmt::format("{}:{}: {}", path, error.source().begin.line,
                               std::string(error.description())));
  }
  for (const auto& [name, node] : table) {
    const Status read = ReadPresetField(std::string(name.str()), node, program);
    if (!read.ok()) {
      return read.WithContext(fmt::format("{}:{}", path, node.source().begin.line));
    }
  }
  return Ok();
}

Result<AgentProgram> AgentProgramFrom(const AgentConfig& keys) {
  AgentProgram program;
  program.limits = DefaultLimits();
  if (!keys.preset.empty()) {
    TM_ASSIGN_OR_RETURN(const std::string path, FindPreset(keys.preset));
    TM_RETURN_IF_ERROR(ReadPreset(path, program));
  }
  if (!keys.command.empty()) program.command = keys.command;
  if (program.command.empty()) return Invalid("agent.command: is empty, and so is the preset's");
  for (const std::string& word : keys.environment) {
    if (word.find('=') == std::string::npos || word[0] == '=') {
      return Invalid("agent.environment: must be words NAME=value, got \"" + word + "\"");
    }
    program.environment.push_back(word);
  }
  for (const std::string& text : keys.mounts) {
    auto mount = ParseBoxMount(text);
    if (!mount.ok()) return mount.status().WithContext("agent.mounts");
    program.mounts.push_back(std::move(*mount));
  }
  program.limits = LimitsFrom(LimitsOf(keys), program.limits);
  TM_RETURN_IF_ERROR(CheckLimits(program.limits).WithContext("agent"));
  program.max_tokens = keys.max_tokens;
  if (keys.idle.count() > 0) program.idle = keys.idle;
  program.last_file = keys.last_file;
  program.own_sampling = keys.sampling == "agent";
  program.model = keys.model;
  return program;
}

AgentProgram ProgramFor(const AgentProgram& program, const v1::Task& task) {
  AgentProgram out = program;
  const v1::AgentProgram& agent = task.agent();
  if (!agent.command().empty()) out.command = {agent.command().begin(), agent.command().end()};
  out.environment.insert(out.environment.end(), agent.environment().begin(),
                         agent.environment().end());
  out.limits = LimitsFrom(agent.limits(), out.limits);
  if (agent.max_tokens() > 0) out.max_tokens = agent.max_tokens();
  if (!agent.last_file().empty()) out.last_file = agent.last_file();
  return out;
}

std::string FillWords(std::string_view text, const AgentWords& words) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '{' ? text.find('}', at) : std::string_view::npos;
    if (end != std::string_view::npos) {
      const auto word = words.find(std::string(text.substr(at + 1, end - at - 1)));
      if (word != words.end()) {
        out += word->second;
        at = end + 1;
        continue;
      }
    }
    out += text[at++];
  }
  return out;
}

}  // namespace tidemill
