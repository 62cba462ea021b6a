// What `tidemill serve` and `tidemill chat` are given: a model directory, a GGUF file, a checkpoint
// or a run.
#pragma once

#include <string>

#include "core/status.h"

namespace tidemill {

struct ModelToServe {
  std::string path;       // a Hugging Face directory
  std::string adapter{};  // a LoRA adapter on it; empty: none
  std::string name{};     // for clients; empty: the directory's
};

// A GGUF file is imported into the cache (model_files.h) once, and again when it changed. Of a run
// the checkpoint `best` is taken, or the newest. An adapter is put on `base`, or on the model that
// it names. kInvalid and kNotFound say what is there instead.
Result<ModelToServe> FindModelToServe(const std::string& given, const std::string& base);

}  // namespace tidemill
