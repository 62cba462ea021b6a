// The tokenizer in a GGUF file's metadata as the files of a Hugging Face directory.
#pragma once

#include <string>

#include "core/status.h"
#include "model/gguf/gguf_file.h"
#include "model/model_config.h"

namespace tidemill {

struct GgufTokenizerFiles {
  std::string tokenizer;         // tokenizer.json
  std::string tokenizer_config;  // tokenizer_config.json, with the chat template
  std::string generation_config;
};

// Byte-level BPE ("gpt2") with a pre-tokenizer that is known. kInvalid names the key, or the token,
// that is not understood. What is returned has been read back by Tokenizer::Parse.
Result<GgufTokenizerFiles> GgufTokenizer(GgufMetadata& metadata, const ModelConfig& config,
                                         const std::string& name);

}  // namespace tidemill
