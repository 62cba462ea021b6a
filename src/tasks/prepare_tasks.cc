#include "tasks/prepare_tasks.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/files.h"
#include "core/hash.h"
#include "tasks/path_patterns.h"
#include "tasks/root_fs.h"
#include "tasks/task_json_parts.h"

namespace tidemill {
namespace {

class Preparation {
 public:
  explicit Preparation(const PrepareOptions& options) : options_(options) {}

  Status Prepare(v1::Task& task) {
    if (task.has_workspace()) {
      TM_RETURN_IF_ERROR(Lay(task.workspace(), task.mutable_files()));
      task.clear_workspace();
    }
    TM_RETURN_IF_ERROR(Store(task.mutable_files()));
    if (!task.root().empty()) TM_RETURN_IF_ERROR(Unpack(*task.mutable_root()));
    if (!options_.solutions) {
      task.clear_solution();
    } else if (task.solution().has_from()) {
      TM_RETURN_IF_ERROR(Lay(task.solution().from(), task.mutable_solution()->mutable_files()));
      task.mutable_solution()->clear_from();
    }
    if (task.has_grading()) TM_RETURN_IF_ERROR(Prepare(task, *task.mutable_grading()));
    if (task.has_examples()) TM_RETURN_IF_ERROR(Prepare(task, *task.mutable_examples()));
    return Ok();
  }

 private:
  Status Prepare(const v1::Task& task, v1::Grading& grading) {
    if (grading.has_harness_from()) {
      TM_RETURN_IF_ERROR(Lay(grading.harness_from(), grading.mutable_harness()));
      grading.clear_harness_from();
    }
    if (grading.mode() == v1::Grading::MODE_COMMAND) {
      TM_RETURN_IF_ERROR(CheckCanary(grading));
      AddOwnFiles(task, grading);
    }
    return Store(grading.mutable_harness());
  }

  // From a path to the hash under which boxes find it.
  Status Unpack(std::string& root) {
    const std::string roots = RootsFolder(options_.roots);
    if (FindRoot(root, roots).ok()) return Ok();
    const bool absolute = root.starts_with('/') || options_.base.empty();
    const std::string path = absolute ? root : options_.base + "/" + root;
    if (!options_.unpack) {
      std::error_code error;
      if (std::filesystem::exists(path, error)) return Ok();
      return NotFound(path + ": no such root file system");
    }
    auto known = unpacked_.find(root);
    if (known == unpacked_.end()) {
      known = unpacked_.emplace(root, PrepareRoot(path, roots)).first;
    }
    TM_ASSIGN_OR_RETURN(root, known->second);
    return Ok();
  }

  // The task's own files win over those of its source.
  Status Lay(const v1::FileSource& source, TaskFiles* files) {
    auto [cached, is_new] = read_.try_emplace(source.SerializeAsString());
    Read& read = cached->second;
    if (is_new) read.status = Fill(source, &read.files);
    TM_RETURN_IF_ERROR(read.status);
    std::set<std::string> own;
    for (const v1::File& file : *files) own.insert(file.path());
    for (const v1::File& file : read.files) {
      if (own.count(file.path()) == 0) *files->Add() = file;
    }
    std::sort(files->begin(), files->end(),
              [](const v1::File& a, const v1::File& b) { return a.path() < b.path(); });
    return Ok();
  }

  Status Fill(const v1::FileSource& source, TaskFiles* files) {
    TM_ASSIGN_OR_RETURN(SourceFiles found, ReadFileSource(source, options_.base, options_.limits));
    for (v1::File& file : found.files) *files->Add() = std::move(file);
    return Store(files);
  }

  Status Store(TaskFiles* files) {
    if (options_.blobs == nullptr) return Ok();
    size_t total = 0;
    for (const v1::File& file : *files) total += file.content().size();
    for (v1::File& file : *files) {
      if (!file.has_content() || TravelsInside(file.content().size(), total)) continue;
      TM_ASSIGN_OR_RETURN(*file.mutable_hash(), options_.blobs->Put(file.content()));
      file.clear_content();
      file.set_has_content(false);
    }
    return Ok();
  }

  static Status CheckCanary(const v1::Grading& grading) {
    if (grading.trusted() || !grading.canary().empty()) return Ok();
    for (const v1::File& file : grading.harness()) {
      if (IsPythonTest(file.path())) return Ok();
    }
    return Invalid(
        "grading.canary is missing: files with which the command must fail. "
        "\"trusted\": true where the command runs no code of the agent's");
  }

  // The agent's version of such a file is left out of the grading, so the first version is part of
  // the harness.
  static void AddOwnFiles(const v1::Task& task, v1::Grading& grading) {
    const auto& defaults = OwnFilePatterns();
    const bool prepared = grading.own_files_size() >= static_cast<int>(defaults.size()) &&
                          grading.own_files(0) == defaults.front();
    if (!prepared) {
      TaskWords all(defaults.begin(), defaults.end());
      for (std::string& pattern : *grading.mutable_own_files()) *all.Add() = std::move(pattern);
      grading.mutable_own_files()->Swap(&all);
    }
    std::set<std::string> ours;
    for (const v1::File& file : grading.harness()) ours.insert(file.path());
    std::set<std::string> all = ours;
    for (const v1::File& file : task.files()) all.insert(file.path());
    const auto has = [&](const std::string& path) { return all.count(path) != 0; };
    for (const v1::File& file : task.files()) {
      if (ours.count(file.path()) != 0 || !IsTasksOwn(grading, file.path(), has)) continue;
      *grading.add_harness() = file;
    }
  }

  // The result of a source, or why there is none.
  struct Read {
    Status status;
    TaskFiles files;
  };

  const PrepareOptions& options_;
  std::map<std::string, Result<std::string>> unpacked_;  // hashes of roots, by path
  std::map<std::string, Read> read_;                     // by source: tasks often share one
};

}  // namespace

Status PrepareTasks(const PrepareOptions& options, std::vector<v1::Task>* tasks) {
  Preparation preparation(options);
  for (v1::Task& task : *tasks) {
    const Status status = preparation.Prepare(task);
    if (!status.ok()) return status.WithContext("task " + task.id());
  }
  return Ok();
}

void PrepareEach(const PrepareOptions& options, std::vector<v1::Task>* tasks,
                 const std::function<void(size_t, const Status&)>& done) {
  Preparation preparation(options);
  for (size_t i = 0; i < tasks->size(); ++i) done(i, preparation.Prepare((*tasks)[i]));
}

std::string BaseOf(const std::string& task_file) {
  return ParentOf(task_file);
}

}  // namespace tidemill
