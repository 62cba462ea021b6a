#include "model/families/family_spec.h"
#include "model/families/qwen_windows.h"

namespace tidemill {

constinit const FamilySpec kQwen3Family = {
    .model_type = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    .layer = {.qk_norm = QueryKeyNorm::kByHead},
    .biases = BiasRule::kAsTold,
    .max_position_embeddings = 32768,
    .head_dim = 128,
    .gguf = {.architecture = "qwen3"},
    .read = ReadQwenWindows,
    .write = WriteQwenWindows,
};

}  // namespace tidemill
