// Norms stand behind attention and the feed-forward layers instead of before them.
#include "model/families/family_spec.h"

namespace tidemill {

constinit const FamilySpec kOlmo2Family = {
    .model_type = "olmo2",
    .architecture = "Olmo2ForCausalLM",
    .layer = {.attention_in = {},
              .attention_out = "post_attention_layernorm",
              .mlp_in = {},
              .mlp_out = "post_feedforward_layernorm",
              .qk_norm = QueryKeyNorm::kWhole},
    .biases = BiasRule::kAsTold,
    .rms_norm_eps = 1e-5,
    .gguf = {.architecture = "olmo2"},
};

}  // namespace tidemill
