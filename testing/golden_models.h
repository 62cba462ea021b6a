// For tests: the folders of reference models, each with files written by the reference
// implementation. Some come with the sources, others lie in a folder beside them that need not be
// there.
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

// The folder beside the sources: `source_dir`/../shared, or TIDEMILL_SHARED.
inline std::string SharedGoldenRoot(const std::string& source_dir) {
  const char* named = std::getenv("TIDEMILL_SHARED");
  return (named != nullptr && *named != '\0' ? std::string(named) : source_dir + "/../shared") +
         "/golden";
}

// Models of it, whether they are there or not.
inline std::vector<std::string> SharedGoldenModels(const std::string& source_dir) {
  std::vector<std::string> models;
  for (const char* name :
       {"gemma3-tiny", "mistral-tiny", "mixtral-tiny", "olmo2-tiny", "qwen3-moe-tiny"}) {
    models.push_back(SharedGoldenRoot(source_dir) + "/" + name);
  }
  return models;
}

// Why a test of them is skipped.
inline std::string MissingSharedGolden(const std::string& source_dir) {
  return SharedGoldenRoot(source_dir) +
         " is not there; TIDEMILL_SHARED names the folder that holds "
         "golden/";
}

// Every folder that holds a config.json, sorted, and those beside the sources that are there.
inline std::vector<std::string> GoldenModels(const std::string& source_dir) {
  std::vector<std::string> models;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenRoot(source_dir))) {
    models.push_back(entry.path().string());
  }
  std::sort(models.begin(), models.end());
  for (const std::string& model : SharedGoldenModels(source_dir)) models.push_back(model);
  std::erase_if(models, [](const std::string& model) {
    return !std::filesystem::exists(model + "/config.json");
  });
  return models;
}

}  // namespace tidemill
