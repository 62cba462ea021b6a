// Lines of a task file. A task that is taken is the same after it was written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "tasks/task_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  std::istringstream input(std::string(reinterpret_cast<const char*>(data), size));
  const TaskFileContents contents = ParseTasks(input, "fuzz");
  for (const v1::Task& task : contents.tasks) {
    std::istringstream line(TaskToJsonLine(task));
    const TaskFileContents again = ParseTasks(line, "again");
    if (!again.errors.empty() || again.tasks.size() != 1) std::abort();
    if (again.tasks[0].SerializeAsString() != task.SerializeAsString()) std::abort();
  }
  return 0;
}
