#include "model/families/family_spec.h"

namespace tidemill {

constinit const FamilySpec kLlamaFamily = {
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .biases = BiasRule::kAsTold,
    .mlp_bias = true,
    .gguf = {.architecture = "llama", .neighbours = true},
};

}  // namespace tidemill
