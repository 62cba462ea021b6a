// A file of the model that a learner has and its workers read.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct ModelFile {
  std::string folder;  // "model", "tokenizer" or "adapter"
  std::string name;    // in it
  uint64_t bytes = 0;
  std::string sha256;
};

// kInvalid: it comes from outside and would lie elsewhere than in its folder, or has no hash.
Status CheckModelFile(const ModelFile& file);

}  // namespace tidemill
