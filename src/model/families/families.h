// The families of decoders that are known. A new one is a file in this folder, which defines
// its FamilySpec, and a row here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#define TM_MODEL_FAMILIES(ROW) \
  ROW(Llama)                   \
  ROW(Qwen2)                   \
  ROW(Qwen3)                   \
  ROW(Mistral)                 \
  ROW(Olmo2)                   \
  ROW(Gemma3)                  \
  ROW(Qwen3Moe)                \
  ROW(Mixtral)

namespace tidemill {

// kLlama, kQwen2, ..
enum class ModelFamily : uint8_t {
#define TM_FAMILY_NAME(name) k##name,
  TM_MODEL_FAMILIES(TM_FAMILY_NAME)
#undef TM_FAMILY_NAME
};

struct FamilySpec;

const FamilySpec& SpecOf(ModelFamily family);
std::span<const ModelFamily> AllFamilies();
// config.json's model_type: "llama", "gemma3_text".
std::string_view ModelFamilyName(ModelFamily family);

}  // namespace tidemill
