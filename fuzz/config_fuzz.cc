// The small JSON files of a model directory. What is both read and written must be read again the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/generation_config.h"
#include "model/lora_config.h"
#include "model/model_config.h"
#include "model/tokenizer_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto config = ParseModelConfig(input, "fuzz"); config.ok()) {
    const std::string json = ModelConfigJson(*config);
    const auto again = ParseModelConfig(json, "again");
    if (!again.ok() || ModelConfigJson(*again) != json) std::abort();
    if (config->ParameterCount() <= 0) std::abort();
    if (ComputeRopeFrequencies(config->rope, config->head_dim).inverse.empty()) std::abort();
  }
  if (const auto config = ParseGenerationConfig(input, "fuzz"); config.ok()) {
    for (const auto id : config->eos_token_ids) {
      if (id < 0) std::abort();
    }
  }
  if (const auto config = ParseLoraConfig(input, "fuzz"); config.ok()) {
    const std::string json = LoraConfigJson(*config);
    const auto again = ParseLoraConfig(json, "again");
    if (!again.ok() || LoraConfigJson(*again) != json) std::abort();
    if (config->RankOf("model.layers.0.mlp.up_proj") < 1) std::abort();
  }
  (void)ParseTokenizerConfig(input, "fuzz");
  return 0;
}
