// From a task file to tasks that can be run: files are read from where the task says they are, a
// grading by a command gets the files that only the task may provide, and large contents go to the
// blob store.
//
//   ReadTaskFile -> PrepareTasks -> tasks whose files are all there
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/blob_store.h"
#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tasks/file_source.h"

namespace tidemill {

struct PrepareOptions {
  std::string base;            // what relative paths begin at: the folder of the task file
  BlobStore* blobs = nullptr;  // null: all contents stay in the task
  std::string roots = {};      // folder of unpacked root file systems; empty: the user's cache
  bool solutions = false;      // false: they are dropped, nothing in a run needs them
  bool unpack = true;          // false: root file systems need only be there
  FileSourceLimits limits = {};
};

// Errors name the task: "task fix-7: the folder repo: no such folder". Preparing a prepared task
// changes nothing.
Status PrepareTasks(const PrepareOptions& options, std::vector<v1::Task>* tasks);

// The same task by task, whatever is wrong with others; `done` gets the place of each task.
void PrepareEach(const PrepareOptions& options, std::vector<v1::Task>* tasks,
                 const std::function<void(size_t, const Status&)>& done);

// The folder a file lies in, as `base`.
std::string BaseOf(const std::string& task_file);

}  // namespace tidemill
