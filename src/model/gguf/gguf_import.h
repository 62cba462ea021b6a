// A GGUF file becomes a Hugging Face model directory: config.json, model.safetensors,
// tokenizer.json, tokenizer_config.json and generation_config.json.
//
//   FILE.gguf (or its parts) -> config -> tokenizer -> each tensor renamed, reordered, dequantised
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "model/dtype.h"

namespace tidemill {

struct GgufImportOptions {
  Dtype dtype = Dtype::kF32;  // or kBF16
  uint64_t max_shard_bytes = uint64_t{5} << 30;
};

struct GgufImported {
  int64_t parameters = 0;
  size_t tensors = 0;
  size_t files = 0;  // the parts a split file had
};

// `path` of a split file is any of its parts; all lie in one folder. `out_dir` is made and must
// hold no model yet (kExists). kInvalid and kCorrupt name the file and the key or tensor.
// Everything is checked before the first file is written; config.json is written last, so that a
// directory with one is whole. Holds one shard in memory.
Result<GgufImported> ImportGguf(const std::string& path, const std::string& out_dir,
                                const GgufImportOptions& options = {});

}  // namespace tidemill
