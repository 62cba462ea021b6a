#include "core/shipped_files.h"

#include <filesystem>

#include "core/child_process.h"

namespace tidemill {

namespace fs = std::filesystem;

std::string ShippedFolder(const std::string& name) {
  const fs::path beside = fs::path(ThisProgram()).parent_path();
  const fs::path below = fs::path("share/tidemill") / name;
  std::error_code error;
  if (fs::exists(beside / below, error)) return (beside / below).string();
  return (beside.parent_path() / below).string();
}

std::string ShapeFolder(const std::string& named) {
  std::error_code error;
  if (named.empty() || named.find('/') != std::string::npos || fs::exists(named, error)) {
    return named;
  }
  const std::string shape = ShippedFolder("examples") + "/shapes/" + named;
  return fs::exists(shape, error) ? shape : named;
}

}  // namespace tidemill
