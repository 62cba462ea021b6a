#include "tasks/task_json_parts.h"

#include <cmath>

#include "core/paths.h"

namespace tidemill {
namespace {

using PartJson = nlohmann::json;
using PartWords = std::vector<std::pair<std::string, int>>;

constexpr uint64_t kTaskDayMs = 86'400'000;

const PartWords& ReportWords() {
  static const PartWords words = {{"exit", v1::Grading::REPORT_EXIT},
                                  {"junit", v1::Grading::REPORT_JUNIT},
                                  {"tap", v1::Grading::REPORT_TAP},
                                  {"json", v1::Grading::REPORT_JSON},
                                  {"number", v1::Grading::REPORT_NUMBER}};
  return words;
}

const PartWords& PromptFilesWords() {
  static const PartWords words = {{"none", v1::Task::PROMPT_FILES_NONE},
                                  {"list", v1::Task::PROMPT_FILES_LIST},
                                  {"all", v1::Task::PROMPT_FILES_ALL}};
  return words;
}

std::string WordOf(const PartWords& words, int meaning) {
  for (const auto& [word, value] : words) {
    if (value == meaning) return word;
  }
  return "";
}

void ReadOneFile(const PartJson& value, const std::string& path, const std::string& field,
                 v1::File& file, std::vector<std::string>& errors) {
  file.set_path(path);
  file.set_has_content(true);
  if (value.is_string()) {
    file.set_content(value.get<std::string>());
    return;
  }
  if (!value.is_object()) {
    errors.push_back(field +
                     ": must be the content as a string, or an object with \"content\", got " +
                     Shown(value));
    return;
  }
  ObjectReader reader(value, field, errors);
  reader.Require("content", "a string");
  reader.String("content", *file.mutable_content());
  bool executable = false;
  reader.Bool("executable", executable);
  file.set_executable(executable);
  reader.RefuseOthers();
}

void ReadWeights(ObjectReader& reader, v1::Task& task) {
  const PartJson* weights = reader.Child("weights");
  if (weights == nullptr) return;
  if (!weights->is_object() || weights->empty()) {
    return reader.Fail("weights", "must be an object of numbers by scorer, got " + Shown(*weights));
  }
  for (const auto& [scorer, weight] : weights->items()) {
    if (!weight.is_number() || std::abs(weight.get<double>()) > 1e6) {
      reader.Fail("weights", "\"" + scorer + "\" must be a number, got " + Shown(weight));
      continue;
    }
    v1::ScorerWeight& added = *task.add_weights();
    added.set_scorer(scorer);
    added.set_weight(weight.get<double>());
  }
}

PartJson SourceToJson(const v1::FileSource& source) {
  PartJson out = PartJson::object();
  if (!source.folder().empty()) out["folder"] = source.folder();
  if (!source.archive().empty()) out["archive"] = source.archive();
  if (!source.git().empty()) out["git"] = source.git();
  if (!source.commit().empty()) out["commit"] = source.commit();
  if (!source.subfolder().empty()) out["subfolder"] = source.subfolder();
  return out;
}

std::vector<std::string> WordsOf(const TaskWords& words) {
  return {words.begin(), words.end()};
}

}  // namespace

void ReadTaskFiles(ObjectReader& parent, const char* name, TaskFiles* files,
                   std::vector<std::string>& errors) {
  const PartJson* value = parent.Child(name);
  if (value == nullptr) return;
  if (!value->is_object()) {
    return parent.Fail(name, "must be an object of contents by path, got " + Shown(*value));
  }
  for (const auto& [path, content] : value->items()) {
    const std::string field = parent.PathOf(name) + "[\"" + path + "\"]";
    if (const Status right = CheckPath(path); !right.ok()) {
      errors.push_back(field + ": " + right.message());
    } else {
      ReadOneFile(content, path, field, *files->Add(), errors);
    }
  }
}

void ReadTaskWords(ObjectReader& reader, const char* name, TaskWords* words) {
  if (reader.Has(name)) words->Clear();
  reader.Strings(name, [&](std::string word) { *words->Add() = std::move(word); });
}

bool ReadFileSourceJson(ObjectReader& parent, const char* name, v1::FileSource* source,
                        std::vector<std::string>& errors) {
  const PartJson* value = parent.Child(name);
  if (value == nullptr) return false;
  const size_t before = errors.size();
  ObjectReader reader(*value, parent.PathOf(name), errors);
  if (!reader.IsObject()) return false;
  reader.String("folder", *source->mutable_folder());
  reader.String("archive", *source->mutable_archive());
  reader.String("git", *source->mutable_git());
  reader.String("commit", *source->mutable_commit());
  reader.String("subfolder", *source->mutable_subfolder());
  reader.RefuseOthers();
  const int kinds = !source->folder().empty() + !source->archive().empty() + !source->git().empty();
  if (errors.size() == before && kinds != 1) {
    reader.Fail("", "must have one of \"folder\", \"archive\" and \"git\"");
  }
  if (!source->commit().empty() && source->git().empty()) {
    reader.Fail("commit", "goes with \"git\" alone");
  }
  if (!source->subfolder().empty()) {
    if (const Status right = CheckPath(source->subfolder()); !right.ok()) {
      reader.Fail("subfolder", right.message());
    }
  }
  return errors.size() == before;
}

void ReadCommandGrading(ObjectReader& reader, v1::Grading& grading,
                        std::vector<std::string>& errors) {
  const bool has = reader.Has("command");
  if (has) grading.clear_run();
  reader.Strings("command", [&](std::string word) { grading.add_run(std::move(word)); });
  int report = grading.report();
  reader.OneOf("report", ReportWords(), report);
  grading.set_report(static_cast<v1::Grading::Report>(report));
  reader.String("report_file", *grading.mutable_report_file());
  ReadTaskWords(reader, "fail_to_pass", grading.mutable_fail_to_pass());
  ReadTaskWords(reader, "pass_to_pass", grading.mutable_pass_to_pass());
  ReadTaskWords(reader, "own_files", grading.mutable_own_files());
  ReadTaskFiles(reader, "canary", grading.mutable_canary(), errors);
  bool trusted = false;
  reader.Bool("trusted", trusted);
  grading.set_trusted(trusted);
  ReadFileSourceJson(reader, "harness_from", grading.mutable_harness_from(), errors);
  if (grading.harness_from().ByteSizeLong() == 0) grading.clear_harness_from();
  if (!has) {
    for (const char* name : {"report", "report_file", "fail_to_pass", "pass_to_pass", "own_files",
                             "canary", "trusted"}) {
      if (reader.Has(name)) reader.Fail(name, "goes with \"command\" alone");
    }
    return;
  }
  grading.set_mode(v1::Grading::MODE_COMMAND);
  for (const char* name : {"run", "cases", "mode", "compare", "specification"}) {
    if (reader.Has(name)) reader.Fail(name, "does not go with \"command\"");
  }
  if (!grading.report_file().empty()) {
    if (const Status right = CheckPath(grading.report_file()); !right.ok()) {
      reader.Fail("report_file", right.message());
    }
  }
  const bool names = grading.fail_to_pass_size() + grading.pass_to_pass_size() > 0;
  if (names && report != v1::Grading::REPORT_JUNIT && report != v1::Grading::REPORT_TAP &&
      report != v1::Grading::REPORT_JSON) {
    reader.Fail("report", "must be \"junit\", \"tap\" or \"json\" where tests are named");
  }
}

void ReadSolution(ObjectReader& parent, v1::Task& task, std::vector<std::string>& errors) {
  const PartJson* value = parent.Child("solution");
  if (value == nullptr) return;
  ObjectReader reader(*value, "solution", errors);
  if (!reader.IsObject()) return;
  v1::Solution& solution = *task.mutable_solution();
  ReadTaskFiles(reader, "files", solution.mutable_files(), errors);
  if (!ReadFileSourceJson(reader, "from", solution.mutable_from(), errors)) solution.clear_from();
  reader.String("patch", *solution.mutable_patch());
  ReadTaskWords(reader, "command", solution.mutable_command());
  reader.String("answer", *solution.mutable_answer());
  reader.RefuseOthers();
  if (!solution.answer().empty() && task.answer_file().empty()) {
    reader.Fail("answer", "needs the task's \"answer_file\"");
  }
}

void ReadTaskLimits(ObjectReader& parent, v1::Limits& limits, std::vector<std::string>& errors) {
  const PartJson* value = parent.Child("limits");
  if (value == nullptr) return;
  ObjectReader reader(*value, parent.PathOf("limits"), errors);
  if (!reader.IsObject()) return;
  const auto field = [&](const char* name, uint64_t max, auto set) {
    uint32_t read = 0;
    reader.Unsigned(name, max, read);
    if (read > 0) set(read);
  };
  field("wall_ms", kTaskDayMs, [&](uint32_t v) { limits.set_wall_ms(v); });
  field("cpu_ms", kTaskDayMs, [&](uint32_t v) { limits.set_cpu_ms(v); });
  field("memory_mb", 1 << 20, [&](uint32_t v) { limits.set_memory_mb(v); });
  field("processes", 100'000, [&](uint32_t v) { limits.set_processes(v); });
  field("output_kb", 1 << 20, [&](uint32_t v) { limits.set_output_kb(v); });
  field("disk_mb", 1 << 20, [&](uint32_t v) { limits.set_disk_mb(v); });
  reader.RefuseOthers();
}

nlohmann::json TaskLimitsToJson(const v1::Limits& limits) {
  PartJson out = PartJson::object();
  if (limits.wall_ms()) out["wall_ms"] = limits.wall_ms();
  if (limits.cpu_ms()) out["cpu_ms"] = limits.cpu_ms();
  if (limits.memory_mb()) out["memory_mb"] = limits.memory_mb();
  if (limits.processes()) out["processes"] = limits.processes();
  if (limits.output_kb()) out["output_kb"] = limits.output_kb();
  if (limits.disk_mb()) out["disk_mb"] = limits.disk_mb();
  return out;
}

static void ReadEnvironment(ObjectReader& parent, v1::Task& task,
                            std::vector<std::string>& errors) {
  const PartJson* value = parent.Child("environment");
  if (value == nullptr) return;
  ObjectReader reader(*value, "environment", errors);
  if (!reader.IsObject()) return;
  v1::EnvironmentTask& environment = *task.mutable_environment();
  reader.String("name", *environment.mutable_environment());
  PartJson row = PartJson::object();
  if (const PartJson* given = reader.Child("row")) row = *given;
  if (!row.is_object()) reader.Fail("row", "must be an object, got " + Shown(row));
  environment.set_row_json(row.dump(-1, ' ', false, PartJson::error_handler_t::replace));
  reader.RefuseOthers();
}

static void ReadAgent(ObjectReader& parent, v1::Task& task, std::vector<std::string>& errors) {
  const PartJson* value = parent.Child("agent");
  if (value == nullptr) return;
  ObjectReader reader(*value, "agent", errors);
  if (!reader.IsObject()) return;
  v1::AgentProgram& agent = *task.mutable_agent();
  ReadTaskWords(reader, "command", agent.mutable_command());
  reader.Strings("environment", [&](std::string word) {
    if (word.find('=') == 0 || word.find('=') == std::string::npos) {
      reader.Fail("environment", "must be words NAME=value, got \"" + word + "\"");
    }
    agent.add_environment(std::move(word));
  });
  ReadTaskLimits(reader, *agent.mutable_limits(), errors);
  uint32_t tokens = 0;
  reader.Unsigned("max_tokens", 1 << 30, tokens);
  agent.set_max_tokens(tokens);
  reader.String("last_file", *agent.mutable_last_file());
  if (const Status right = CheckPath(agent.last_file());
      !agent.last_file().empty() && !right.ok()) {
    reader.Fail("last_file", right.message());
  }
  reader.RefuseOthers();
}

void ReadTaskExtras(ObjectReader& reader, v1::Task& task, std::vector<std::string>& errors) {
  ReadAgent(reader, task, errors);
  ReadEnvironment(reader, task, errors);
  if (!ReadFileSourceJson(reader, "workspace", task.mutable_workspace(), errors)) {
    task.clear_workspace();
  }
  int prompt_files = 0;
  reader.OneOf("prompt_files", PromptFilesWords(), prompt_files);
  task.set_prompt_files(static_cast<v1::Task::PromptFiles>(prompt_files));
  reader.String("root", *task.mutable_root());
  ReadWeights(reader, task);
  if (task.has_environment() && task.weights().empty()) {
    v1::ScorerWeight& weight = *task.add_weights();  // what it pays is the reward
    weight.set_scorer("environment");
    weight.set_weight(1);
  }
  if (const PartJson* metadata = reader.Child("metadata")) {
    if (!metadata->is_object()) {
      reader.Fail("metadata", "must be an object, got " + Shown(*metadata));
    } else {
      task.set_metadata_json(metadata->dump(-1, ' ', false, PartJson::error_handler_t::replace));
    }
  }
}

nlohmann::json TaskFilesToJson(const TaskFiles& files) {
  PartJson out = PartJson::object();
  for (const v1::File& file : files) {
    if (file.executable()) {
      out[file.path()] = {{"content", file.content()}, {"executable", true}};
    } else {
      out[file.path()] = file.content();
    }
  }
  return out;
}

void CommandGradingToJson(const v1::Grading& grading, nlohmann::ordered_json& out) {
  out["command"] = WordsOf(grading.run());
  if (!grading.build().empty()) out["build"] = WordsOf(grading.build());
  if (!grading.harness().empty()) out["harness"] = TaskFilesToJson(grading.harness());
  if (grading.has_harness_from()) out["harness_from"] = SourceToJson(grading.harness_from());
  const std::string report = WordOf(ReportWords(), grading.report());
  if (!report.empty()) out["report"] = report;
  if (!grading.report_file().empty()) out["report_file"] = grading.report_file();
  if (!grading.fail_to_pass().empty()) out["fail_to_pass"] = WordsOf(grading.fail_to_pass());
  if (!grading.pass_to_pass().empty()) out["pass_to_pass"] = WordsOf(grading.pass_to_pass());
  if (!grading.own_files().empty()) out["own_files"] = WordsOf(grading.own_files());
  if (!grading.canary().empty()) out["canary"] = TaskFilesToJson(grading.canary());
  if (grading.trusted()) out["trusted"] = true;
}

nlohmann::ordered_json SolutionToJson(const v1::Solution& solution) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (!solution.files().empty()) out["files"] = TaskFilesToJson(solution.files());
  if (solution.has_from()) out["from"] = SourceToJson(solution.from());
  if (!solution.patch().empty()) out["patch"] = solution.patch();
  if (!solution.command().empty()) out["command"] = WordsOf(solution.command());
  if (!solution.answer().empty()) out["answer"] = solution.answer();
  return out;
}

static nlohmann::ordered_json AgentToJson(const v1::AgentProgram& agent) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (!agent.command().empty()) out["command"] = WordsOf(agent.command());
  if (!agent.environment().empty()) out["environment"] = WordsOf(agent.environment());
  if (const PartJson limits = TaskLimitsToJson(agent.limits()); !limits.empty()) {
    out["limits"] = limits;
  }
  if (agent.max_tokens() > 0) out["max_tokens"] = agent.max_tokens();
  if (!agent.last_file().empty()) out["last_file"] = agent.last_file();
  return out;
}

void TaskExtrasToJson(const v1::Task& task, nlohmann::ordered_json& out) {
  if (task.has_workspace()) out["workspace"] = SourceToJson(task.workspace());
  const std::string prompt_files = WordOf(PromptFilesWords(), task.prompt_files());
  if (!prompt_files.empty()) out["prompt_files"] = prompt_files;
  if (!task.root().empty()) out["root"] = task.root();
  if (task.has_agent()) out["agent"] = AgentToJson(task.agent());
  if (task.has_environment()) {
    nlohmann::ordered_json& environment = out["environment"];
    if (!task.environment().environment().empty()) {
      environment["name"] = task.environment().environment();
    }
    environment["row"] =
        nlohmann::ordered_json::parse(task.environment().row_json(), nullptr, false);
  }
  for (const v1::ScorerWeight& weight : task.weights()) {
    out["weights"][weight.scorer()] = weight.weight();
  }
  if (!task.metadata_json().empty()) {
    out["metadata"] = nlohmann::ordered_json::parse(task.metadata_json(), nullptr, false);
  }
}

}  // namespace tidemill
