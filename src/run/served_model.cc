#include "run/served_model.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/files.h"
#include "core/random.h"
#include "model/gguf/gguf_import.h"
#include "run/model_files.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr size_t kConfigBytesMax = size_t{1} << 20;

bool Is(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The file's place in the cache: another one for each content, as far as size and time show.
Result<ModelToServe> Imported(const fs::path& file) {
  std::error_code error;
  const fs::path whole = fs::absolute(file, error);
  const auto size = fs::file_size(file, error);
  if (error) return NotFound(file.string() + ": " + error.message());
  const auto time = fs::last_write_time(file, error).time_since_epoch().count();
  char place[17];
  std::snprintf(place, sizeof place, "%016llx",
                static_cast<unsigned long long>(StableHash(
                    whole.string() + " " + std::to_string(size) + " " + std::to_string(time))));
  const fs::path folder = fs::path(ModelCache()) / "gguf" / place;
  ModelToServe model{.path = folder.string(), .name = file.stem().string()};
  if (Is(folder / "config.json")) return model;
  fs::create_directories(folder.parent_path(), error);
  std::fprintf(stderr, "tidemill: importing %s into %s\n", file.c_str(), folder.c_str());
  const auto imported = ImportGguf(file.string(), folder.string(), {.dtype = Dtype::kBF16});
  if (!imported.ok()) return imported.status();
  return model;
}

Result<ModelToServe> Adapted(const fs::path& folder, std::string base) {
  if (base.empty()) {
    TM_ASSIGN_OR_RETURN(
        const std::string text,
        ReadFileBounded((folder / "adapter_config.json").string(), kConfigBytesMax));
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_object() && json.contains("base_model_name_or_path") &&
        json["base_model_name_or_path"].is_string()) {
      base = json["base_model_name_or_path"].get<std::string>();
    }
  }
  if (base.empty() || !Is(fs::path(base) / "config.json")) {
    return Invalid(folder.string() + " is a LoRA adapter on \"" + base +
                   "\", which is no model directory here: tidemill serve BASE --adapter " +
                   folder.string());
  }
  return ModelToServe{.path = base, .adapter = folder.string()};
}

// The run's best checkpoint, or its newest.
Result<fs::path> CheckpointOf(const fs::path& run) {
  const fs::path folder = run / "checkpoints";
  if (Is(folder / "best")) return folder / "best";
  std::vector<fs::path> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("step-")) steps.push_back(entry.path());
  }
  if (steps.empty()) return NotFound(run.string() + " is a run without a checkpoint");
  return *std::max_element(steps.begin(), steps.end());
}

}  // namespace

Result<ModelToServe> FindModelToServe(const std::string& given, const std::string& base) {
  const fs::path path(given);
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    if (path.extension() == ".gguf") return Imported(path);
    return Invalid(given + " is a file; a model is a directory or a .gguf file");
  }
  if (!fs::is_directory(path, error)) {
    return NotFound(given + ": there is no such directory or .gguf file");
  }
  if (Is(path / "adapter_config.json")) return Adapted(path, base);
  if (Is(path / "config.json")) return ModelToServe{.path = given};
  if (Is(path / "checkpoints")) {
    TM_ASSIGN_OR_RETURN(const fs::path checkpoint, CheckpointOf(path));
    TM_ASSIGN_OR_RETURN(ModelToServe model, FindModelToServe(checkpoint.string(), base));
    model.name = fs::absolute(path, error).lexically_normal().filename().string();
    return model;
  }
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".gguf") {
      return Invalid(given + " has no config.json, but " + entry.path().filename().string() +
                     ": tidemill serve " + entry.path().string());
    }
  }
  return Invalid(given + " has no config.json, adapter_config.json or checkpoints: it is no model");
}

}  // namespace tidemill
