// SWE-bench rows (instance_id, repo, base_commit, patch, test_patch, problem_statement,
// FAIL_TO_PASS, PASS_TO_PASS, ..) over repositories on this machine: --mirrors DIR holds
// owner__name.git, owner__name or owner/name. The tests of test_patch are the harness, the named
// tests decide.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "tasks/file_source.h"
#include "tasks/import/import_rows.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using SweJson = nlohmann::json;

Result<std::string> MirrorOf(const std::string& repo, const std::string& mirrors) {
  std::string flat = repo;
  if (const size_t slash = flat.find('/'); slash != std::string::npos) flat.replace(slash, 1, "__");
  std::error_code error;
  for (const std::string& name : {flat + ".git", flat, repo + ".git", repo}) {
    const fs::path path = fs::path(mirrors) / name;
    if (fs::is_directory(path, error)) return fs::absolute(path).string();
  }
  return NotFound("no mirror of " + repo + " in " + mirrors + "; git clone --mirror URL " +
                  mirrors + "/" + flat + ".git makes one");
}

// Lists come as lists, or as JSON in a string.
Status NamesOf(ObjectReader& row, const char* name, std::vector<std::string>& names) {
  const SweJson* value = row.Child(name);
  if (value == nullptr) return Ok();
  SweJson list = *value;
  if (list.is_string()) list = SweJson::parse(list.get<std::string>(), nullptr, false);
  if (!list.is_array()) return Invalid(std::string(name) + " must be a list of names of tests");
  for (const SweJson& one : list) {
    if (!one.is_string()) return Invalid(std::string(name) + " must be a list of names of tests");
    names.push_back(one.get<std::string>());
  }
  return Ok();
}

// The files a diff writes, by its "+++ b/PATH" lines.
std::vector<std::string> FilesOfDiff(const std::string& diff) {
  std::vector<std::string> paths;
  for (size_t at = diff.find("+++ b/"); at != std::string::npos; at = diff.find("+++ b/", at + 1)) {
    if (at > 0 && diff[at - 1] != '\n') continue;
    const size_t end = std::min(diff.find_first_of("\n\t\r", at), diff.size());
    paths.push_back(diff.substr(at + 6, end - at - 6));
  }
  return paths;
}

struct SweRow {
  std::string id, repo, commit, patch, test_patch, problem, hints;
  std::vector<std::string> fail_to_pass, pass_to_pass;
};

Status ReadRow(ObjectReader& row, SweRow& out) {
  for (const char* name :
       {"instance_id", "repo", "base_commit", "test_patch", "problem_statement", "FAIL_TO_PASS"}) {
    row.Require(name, "a field of every row");
  }
  row.String("instance_id", out.id);
  row.String("repo", out.repo);
  row.String("base_commit", out.commit);
  row.String("patch", out.patch);
  row.String("test_patch", out.test_patch);
  row.String("problem_statement", out.problem);
  row.String("hints_text", out.hints);
  for (const char* known : {"created_at", "version", "environment_setup_commit", "difficulty"}) {
    (void)row.Child(known);
  }
  TM_RETURN_IF_ERROR(NamesOf(row, "FAIL_TO_PASS", out.fail_to_pass));
  return NamesOf(row, "PASS_TO_PASS", out.pass_to_pass);
}

// The tests as they are after test_patch: the harness of the grading.
Result<std::vector<v1::File>> TestsOf(const SweRow& row, const v1::FileSource& source,
                                      const ImportOptions& options) {
  if (!options.hooks.apply_patch) return Invalid("patches cannot be applied here");
  const std::vector<std::string> names = FilesOfDiff(row.test_patch);
  const std::set<std::string> touched(names.begin(), names.end());
  TM_ASSIGN_OR_RETURN(SourceFiles all, ReadFileSource(source, ""));
  std::vector<v1::File> before;
  for (v1::File& file : all.files) {
    if (touched.count(file.path()) != 0) before.push_back(std::move(file));
  }
  return options.hooks.apply_patch(std::move(before), row.test_patch);
}

Result<v1::Task> SweTask(const SweRow& row, const ImportOptions& options) {
  v1::Task task;
  task.set_id(row.id);
  task.set_prompt(row.problem);
  task.add_tools("bash");
  task.add_tags("swebench");
  task.mutable_limits();
  TM_ASSIGN_OR_RETURN(*task.mutable_workspace()->mutable_git(),
                      MirrorOf(row.repo, options.mirrors));
  task.mutable_workspace()->set_commit(row.commit);
  if (!options.root.empty() && options.root != "host") {
    task.set_root(fs::absolute(options.root).string());
  }
  v1::Grading& grading = *task.mutable_grading();
  grading.set_mode(v1::Grading::MODE_COMMAND);
  grading.set_report(v1::Grading::REPORT_JUNIT);
  TM_ASSIGN_OR_RETURN(std::vector<v1::File> tests, TestsOf(row, task.workspace(), options));
  std::vector<std::string> command = options.command;
  if (command.empty()) command = {"python3", "-m", "pytest", "-q", "--junitxml={report}"};
  for (v1::File& file : tests) {
    if (options.command.empty() && file.path().ends_with(".py")) command.push_back(file.path());
    *grading.add_harness() = std::move(file);
  }
  for (const std::string& word : command) grading.add_run(word);
  for (const std::string& name : row.fail_to_pass) grading.add_fail_to_pass(name);
  for (const std::string& name : row.pass_to_pass) grading.add_pass_to_pass(name);
  grading.mutable_limits()->set_wall_ms(600'000);
  grading.mutable_limits()->set_cpu_ms(600'000);
  if (!row.patch.empty()) task.mutable_solution()->set_patch(row.patch);
  SweJson metadata = {{"repo", row.repo}, {"base_commit", row.commit}};
  task.set_metadata_json(metadata.dump());
  return task;
}

}  // namespace

Result<ImportedTasks> ImportSwebench(const std::string& path, const ImportOptions& options) {
  if (options.mirrors.empty()) {
    return Invalid("swebench needs --mirrors DIR, the folder of the repositories");
  }
  ImportedTasks out;
  const auto read = [&](ObjectReader& row, const SweJson&) -> Status {
    SweRow fields;
    TM_RETURN_IF_ERROR(ReadRow(row, fields));
    out.Add(fields.id, SweTask(fields, options), "");
    return Ok();
  };
  TM_RETURN_IF_ERROR(ForEachRow(path, read));
  return out;
}

}  // namespace tidemill
