// Published task sets become task files: each format is a small file here.
//
//   rows (JSONL) or folders -> importer of the format -> ImportedTasks -> task file, demonstrations
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// The services that an importer needs from above:
// src/tasks has no boxes and no patches.
struct ImportHooks {
  // The files after the unified diff.
  std::function<Result<std::vector<v1::File>>(std::vector<v1::File> files, const std::string& diff)>
      apply_patch;
  // The files after a command ran over them in a box with the root (a path; empty: the machine's).
  struct Step {
    std::string command;                   // for /bin/sh
    std::vector<std::string> environment;  // "NAME=value"
    std::string folder;                    // in the workspace
    std::string root;
  };
  std::function<Result<std::vector<v1::File>>(std::vector<v1::File> files, const Step& step)> run;
};

struct ImportOptions {
  std::string split;         // "train", "validation", "test", "prompt"; empty: all
  uint32_t cpu_ms = 2000;    // of one grading; of collections that say nothing themselves
  std::string root = {};     // harbor, swebench: root file system; "host": the machine's
  std::string mirrors = {};  // swebench: folder of the repositories
  std::vector<std::string> command = {};  // swebench: instead of pytest
  std::string environment = {};           // nemo-gym, verifiers: EnvironmentTask.environment
  ImportHooks hooks = {};
};

struct ImportedTask {
  v1::Task task;
  std::string solution;  // the authors' own; empty: none
};

struct ImportedTasks {
  std::vector<ImportedTask> tasks;
  std::vector<std::string> skipped;  // "mbpp-596: .. why it cannot be graded"
  std::vector<std::string> notes;    // "cat-file: .. what is not as its authors meant it"

  // The task with its solution, or why there is none.
  void Add(const std::string& id, Result<v1::Task> task, std::string solution) {
    if (task.ok()) {
      tasks.push_back({std::move(*task), std::move(solution)});
    } else {
      skipped.push_back(id + ": " + task.status().message());
    }
  }
};

// The formats there are: "mbpp", "humaneval", "pyfunc", "harbor", "swebench",
// "nemo-gym", "verifiers".
std::vector<std::string> ImportFormats();

// kNotFound: no such file. kInvalid: "FILE:14: .." names the line and the field that is missing,
// wrong or not known; a split the format does not have.
Result<ImportedTasks> ImportTasks(std::string_view format, const std::string& source,
                                  const ImportOptions& options);

}  // namespace tidemill
