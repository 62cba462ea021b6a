// For tests: the folders of reference models, each with files written by the reference
// implementation.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace tidemill {

// The folder TIDEMILL_GOLDEN names, or the one that comes with the sources
// (`source_dir`/tests/golden).
inline std::string GoldenRoot(const std::string& source_dir) {
  const char* named = std::getenv("TIDEMILL_GOLDEN");
  return named != nullptr && *named != '\0' ? named : source_dir + "/tests/golden";
}

// Every folder in it that holds a config.json, sorted.
inline std::vector<std::string> GoldenModels(const std::string& source_dir) {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenRoot(source_dir))) {
    if (std::filesystem::exists(entry.path() / "config.json"))
      models.push_back(entry.path().string());
  }
  std::sort(models.begin(), models.end());
  return models;
}

}  // namespace tidemill
