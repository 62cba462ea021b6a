// Drawing, writing and reading a model and its checkpoint, against reading the same files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/status.h"

namespace tidemill {

struct DiskBenchOptions {
  std::string config = "examples/shapes/0.5b/config.json";
  std::string folder = "build/disk";  // must not exist; removed
  std::string device = "cpu";
  bool load_only = false;
};

struct DiskBenchReport {
  nlohmann::ordered_json figures;
  std::string ToText() const;
  std::string ToJson() const;
};

Result<DiskBenchReport> RunDiskBench(const DiskBenchOptions& options);

}  // namespace tidemill
