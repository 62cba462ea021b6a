// The model's config in a GGUF file's metadata, as config.json would have it.
#pragma once

#include "core/status.h"
#include "model/gguf/gguf_file.h"
#include "model/model_config.h"

namespace tidemill {

// `tensors` says what the metadata leaves open: biases, a tied output, the scaled frequencies of
// Llama 3. kInvalid names the key: an architecture, a rope or a part that is not known, or any key
// of the architecture that this reader does not understand. The dtype is left as it is.
Result<ModelConfig> GgufModelConfig(GgufMetadata& metadata, const std::vector<GgufTensor>& tensors,
                                    const std::string& name);

}  // namespace tidemill
