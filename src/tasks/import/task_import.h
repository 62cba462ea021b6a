// Published task sets become task files: each format is a small file here.
//
//   rows (JSONL) -> importer of the format -> ImportedTasks -> task file, demonstrations
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct ImportOptions {
  std::string split;       // "train", "validation", "test", "prompt"; empty: all
  uint32_t cpu_ms = 2000;  // of one grading
};

struct ImportedTask {
  v1::Task task;
  std::string solution;  // the authors' own; empty: none
};

struct ImportedTasks {
  std::vector<ImportedTask> tasks;
  std::vector<std::string> skipped;  // "mbpp-596: .. why it cannot be graded"
};

// The formats there are: "mbpp", "humaneval", "pyfunc".
std::vector<std::string> ImportFormats();

// kNotFound: no such file. kInvalid: "FILE:14: .." names the line and the field that is missing,
// wrong or not known; a split the format does not have.
Result<ImportedTasks> ImportTasks(std::string_view format, const std::string& source,
                                  const ImportOptions& options);

}  // namespace tidemill
