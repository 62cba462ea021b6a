// Harbor tasks: a folder with task.toml, instruction.md, environment/ (a Dockerfile and files),
// tests/test.sh, which leaves a reward in /logs/verifier/reward.txt, and solution/solve.sh. SOURCE
// is such a folder, or one with such folders.
#define TOML_HEADER_ONLY 0
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/text.h"
#include "tasks/file_source.h"
#include "tasks/import/dockerfile.h"
#include "tasks/import/import_rows.h"
#include "tasks/path_patterns.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using HarborJson = nlohmann::json;

constexpr size_t kTextBytesMax = size_t{1} << 20;
constexpr const char* kReward = "logs/verifier/reward.txt";

HarborJson ToJson(const toml::node& node, int depth) {
  if (depth > 16) return nullptr;
  if (const auto* table = node.as_table()) {
    HarborJson out = HarborJson::object();
    for (const auto& [key, value] : *table) out[std::string(key.str())] = ToJson(value, depth + 1);
    return out;
  }
  if (const auto* list = node.as_array()) {
    HarborJson out = HarborJson::array();
    for (const auto& value : *list) out.push_back(ToJson(value, depth + 1));
    return out;
  }
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  if (const auto whole = node.value_exact<int64_t>()) return *whole;
  if (const auto number = node.value<double>()) return *number;
  return nullptr;
}

Result<HarborJson> ReadToml(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kTextBytesMax));
  try {
    return ToJson(toml::parse(text, path), 0);
  } catch (const toml::parse_error& error) {
    return Invalid(path + ":" + std::to_string(error.source().begin.line) + ": " +
                   std::string(error.description()));
  }
}

// "2G", "512M", or a number of MiB.
uint32_t MebiBytes(const HarborJson& value) {
  if (value.is_number()) return static_cast<uint32_t>(std::clamp(value.get<double>(), 0.0, 1e6));
  if (!value.is_string()) return 0;
  const std::string text = value.get<std::string>();
  const double number = std::strtod(text.c_str(), nullptr);
  const bool giga = text.find('G') != std::string::npos;
  return static_cast<uint32_t>(std::clamp(number * (giga ? 1024 : 1), 0.0, 1e6));
}

struct HarborSettings {
  double verifier_s = 600;
  uint32_t memory_mb = 0, disk_mb = 0;
  HarborJson metadata = HarborJson::object();
  std::vector<std::string> tags;
};

// Every field there is in the format; what is not here is named. What cannot be honoured stays
// visible as metadata.
Status ReadSettings(const std::string& path, HarborSettings& settings) {
  TM_ASSIGN_OR_RETURN(const HarborJson toml, ReadToml(path));
  std::vector<std::string> errors;
  ObjectReader root(toml, "", errors);
  for (const char* name : {"version", "schema_version", "source"}) (void)root.Child(name);
  if (const HarborJson* metadata = root.Child("metadata")) {
    settings.metadata = *metadata;
    if (metadata->is_object() && metadata->contains("tags") && (*metadata)["tags"].is_array()) {
      for (const HarborJson& tag : (*metadata)["tags"]) {
        if (tag.is_string()) settings.tags.push_back(tag.get<std::string>());
      }
    }
  }
  const auto section = [&](const char* name, auto read) {
    const HarborJson* value = root.Child(name);
    if (value == nullptr) return;
    ObjectReader reader(*value, name, errors);
    if (!reader.IsObject()) return;
    read(reader);
    reader.RefuseOthers();
  };
  section("verifier", [&](ObjectReader& r) { r.Number("timeout_sec", settings.verifier_s); });
  section("agent", [&](ObjectReader& r) {
    double seconds = 0;
    r.Number("timeout_sec", seconds);
    if (seconds > 0) settings.metadata["agent_timeout_s"] = seconds;
  });
  section("solution", [](ObjectReader&) {});
  section("environment", [&](ObjectReader& r) {
    for (const char* name : {"build_timeout_sec", "cpus", "docker_image", "gpus"}) {
      if (const HarborJson* value = r.Child(name)) settings.metadata[name] = *value;
    }
    for (const char* name : {"memory", "memory_mb"}) {
      if (const HarborJson* value = r.Child(name)) settings.memory_mb = MebiBytes(*value);
    }
    for (const char* name : {"storage", "storage_mb"}) {
      if (const HarborJson* value = r.Child(name)) settings.disk_mb = MebiBytes(*value);
    }
    bool internet = false;
    r.Bool("allow_internet", internet);
    if (internet) settings.metadata["allow_internet"] = true;
  });
  root.RefuseOthers();
  return errors.empty() ? Ok() : Invalid(path + ": " + errors.front());
}

Result<std::vector<v1::File>> FilesBelow(const std::string& folder) {
  v1::FileSource source;
  source.set_folder(folder);
  TM_ASSIGN_OR_RETURN(SourceFiles found, ReadFileSource(source, ""));
  for (const v1::File& file : found.files) {
    if (!IsUtf8(file.content())) {
      return Invalid(folder + "/" + file.path() + ": is no text, which a task file cannot hold");
    }
  }
  return std::move(found.files);
}

// Carries out a Dockerfile over a workspace that stands for /app.
class HarborBuild {
 public:
  HarborBuild(const ImportOptions& options, std::vector<v1::File> context)
      : options_(options), context_(std::move(context)) {}

  Status Carry(const std::vector<DockerStep>& steps) {
    for (const DockerStep& step : steps) {
      const Status status = Do(step);
      if (!status.ok()) return status.WithContext("Dockerfile:" + std::to_string(step.line));
    }
    return Ok();
  }

  std::vector<v1::File> TakeFiles() {
    std::vector<v1::File> files;
    for (auto& [path, file] : files_) files.push_back(std::move(file));
    return files;
  }
  const std::vector<std::string>& environment() const { return environment_; }

 private:
  Status Do(const DockerStep& step) {
    switch (step.kind) {
      case DockerStep::Kind::kFrom:
        if (!options_.root.empty()) return Ok();
        return Invalid("FROM " + step.words[0] + ": give its root file system with --root PATH, " +
                       "or --root host for this machine's");
      case DockerStep::Kind::kEnv:
        environment_.insert(environment_.end(), step.words.begin(), step.words.end());
        return Ok();
      case DockerStep::Kind::kWorkdir: {
        TM_ASSIGN_OR_RETURN(folder_, Inside(step.words[0], "WORKDIR"));
        return Ok();
      }
      case DockerStep::Kind::kCopy:
        return Copy(step.words);
      case DockerStep::Kind::kRun:
        return Run(step.words[0]);
    }
    return Ok();
  }

  // A path of the image as one of the workspace, without slashes around it.
  Result<std::string> Inside(const std::string& path, const std::string& what) const {
    std::string full = path.starts_with('/') ? path : "/app/" + folder_ + "/" + path;
    full = fs::path(full).lexically_normal().generic_string();
    while (full.size() > 1 && full.ends_with('/')) full.pop_back();
    if (full == "/app") return std::string();
    if (!full.starts_with("/app/")) {
      return Invalid(what + " " + path + ": only /app can be written; the rest is the root's");
    }
    return full.substr(5);
  }

  Status Copy(const std::vector<std::string>& words) {
    TM_ASSIGN_OR_RETURN(const std::string to, Inside(words.back(), "COPY"));
    const bool folder = words.size() > 2 || words.back().ends_with('/') || words.back() == "." ||
                        to == folder_ || to.empty();
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      std::string from = fs::path(words[i]).lexically_normal().generic_string();
      while (from.starts_with('/')) from.erase(0, 1);
      while (from.ends_with('/')) from.pop_back();
      bool found = false;
      for (const v1::File& file : context_) {
        const bool all = from.empty() || from == ".";
        const bool below = all || file.path().starts_with(from + "/");
        const bool same = MatchesPattern(from, file.path());
        if (!below && !same) continue;
        if (file.path() == "Dockerfile") continue;
        found = true;
        std::string name = below ? file.path().substr(all ? 0 : from.size() + 1)
                                 : fs::path(file.path()).filename().string();
        std::string path = to;
        if (below || folder) path += (path.empty() ? "" : "/") + name;
        files_[path] = file;
        files_[path].set_path(path);
      }
      if (!found) return NotFound("COPY " + words[i] + ": there is no such file in environment/");
    }
    return Ok();
  }

  Status Run(const std::string& command) {
    if (!options_.hooks.run) return Invalid("RUN needs boxes, which are not there");
    std::vector<v1::File> files = TakeFiles();
    files_.clear();
    const ImportHooks::Step step{command, environment_, folder_,
                                 options_.root == "host" ? "" : options_.root};
    auto after = options_.hooks.run(std::move(files), step);
    if (!after.ok()) return after.status().WithContext("RUN " + Beginning(command, 60));
    for (v1::File& file : *after) files_[file.path()] = std::move(file);
    return Ok();
  }

  const ImportOptions& options_;
  const std::vector<v1::File> context_;
  std::map<std::string, v1::File> files_;
  std::vector<std::string> environment_;
  std::string folder_;  // in the workspace
};

Status AddGrading(const std::string& folder, const HarborSettings& settings,
                  const std::vector<std::string>& environment, v1::Task& task,
                  std::vector<std::string>& notes) {
  v1::Grading& grading = *task.mutable_grading();
  grading.set_mode(v1::Grading::MODE_COMMAND);
  grading.set_report(v1::Grading::REPORT_NUMBER);
  grading.set_report_file(kReward);
  if (!environment.empty()) {
    grading.add_run("env");
    for (const std::string& variable : environment) grading.add_run(variable);
  }
  grading.add_run("bash");
  grading.add_run("tests/test.sh");
  TM_ASSIGN_OR_RETURN(std::vector<v1::File> tests, FilesBelow(folder + "/tests"));
  bool python = false;
  for (v1::File& file : tests) {
    file.set_path("tests/" + file.path());
    python = python || IsPythonTest(file.path());
    *grading.add_harness() = std::move(file);
  }
  grading.set_trusted(!python);
  if (!python) {
    notes.push_back(task.id() +
                    ": has no Python tests to add a canary to; a submission that forges "
                    "the reward file would not be found out");
  }
  const double wall_ms = std::clamp(settings.verifier_s, 1.0, 86'400.0) * 1000;
  grading.mutable_limits()->set_wall_ms(static_cast<uint32_t>(wall_ms));
  grading.mutable_limits()->set_cpu_ms(static_cast<uint32_t>(wall_ms));
  if (settings.memory_mb > 0) grading.mutable_limits()->set_memory_mb(settings.memory_mb);
  if (settings.disk_mb > 0) grading.mutable_limits()->set_disk_mb(settings.disk_mb);
  *task.mutable_limits() = grading.limits();
  return Ok();
}

Result<v1::Task> HarborTask(const std::string& folder, const ImportOptions& options,
                            std::vector<std::string>& notes) {
  HarborSettings settings;
  TM_RETURN_IF_ERROR(ReadSettings(folder + "/task.toml", settings));
  v1::Task task;
  task.set_id(fs::path(folder).filename().string());
  TM_ASSIGN_OR_RETURN(*task.mutable_prompt(),
                      ReadFileBounded(folder + "/instruction.md", kTextBytesMax));
  std::error_code error;
  std::vector<v1::File> context;
  if (fs::is_directory(folder + "/environment", error)) {
    TM_ASSIGN_OR_RETURN(context, FilesBelow(folder + "/environment"));
  }
  HarborBuild build(options, std::move(context));
  if (fs::exists(folder + "/environment/Dockerfile", error)) {
    TM_ASSIGN_OR_RETURN(const std::string text,
                        ReadFileBounded(folder + "/environment/Dockerfile", kTextBytesMax));
    TM_ASSIGN_OR_RETURN(const std::vector<DockerStep> steps, ParseDockerfile(text));
    TM_RETURN_IF_ERROR(build.Carry(steps));
  }
  for (v1::File& file : build.TakeFiles()) *task.add_files() = std::move(file);
  if (!options.root.empty() && options.root != "host") {
    task.set_root(fs::absolute(options.root).string());
  }
  task.add_tools("bash");
  task.add_tags("harbor");
  for (const std::string& tag : settings.tags) {
    if (tag.find_first_of(" \t\n") == std::string::npos && tag != "harbor" && !tag.empty()) {
      task.add_tags(tag);
    }
  }
  task.set_metadata_json(settings.metadata.dump());
  TM_RETURN_IF_ERROR(AddGrading(folder, settings, build.environment(), task, notes));
  if (fs::exists(folder + "/solution/solve.sh", error)) {
    TM_ASSIGN_OR_RETURN(const std::string script,
                        ReadFileBounded(folder + "/solution/solve.sh", kTextBytesMax));
    for (const char* word : {"bash", "-c"}) task.mutable_solution()->add_command(word);
    task.mutable_solution()->add_command(script);
  }
  return task;
}

}  // namespace

Result<ImportedTasks> ImportHarbor(const std::string& path, const ImportOptions& options) {
  std::error_code error;
  std::vector<std::string> folders;
  if (fs::exists(path + "/task.toml", error)) {
    folders.push_back(fs::canonical(path, error).string());
  } else {
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (fs::exists(entry.path() / "task.toml")) folders.push_back(entry.path().string());
    }
    if (error) return NotFound(path + ": no such folder");
  }
  std::sort(folders.begin(), folders.end());
  ImportedTasks out;
  for (const std::string& folder : folders) {
    auto task = HarborTask(folder, options, out.notes);
    if (task.ok()) {
      out.tasks.push_back({std::move(*task), ""});
    } else if (folders.size() == 1) {
      return task.status().WithContext(folder);
    } else {
      out.skipped.push_back(fs::path(folder).filename().string() + ": " + task.status().message());
    }
  }
  return out;
}

}  // namespace tidemill
