#include "model/families/family_spec.h"
#include "model/families/qwen_windows.h"

namespace tidemill {

constinit const FamilySpec kQwen2Family = {
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .biases = BiasRule::kQueriesKeysValues,
    .max_position_embeddings = 32768,
    .gguf = {.architecture = "qwen2"},
    .read = ReadQwenWindows,
    .write = WriteQwenWindows,
};

}  // namespace tidemill
