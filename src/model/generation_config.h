// generation_config.json: which tokens end a text and how its author wants it sampled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct GenerationConfig {
  std::vector<int32_t> eos_token_ids;  // any of them ends a turn
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> pad_token_id;
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
  std::optional<double> min_p;
  std::optional<int32_t> max_new_tokens;
};

// `name` is what errors call the input. kInvalid names the field.
Result<GenerationConfig> ParseGenerationConfig(std::string_view json, std::string_view name);
// DIR/generation_config.json; kNotFound: no such file (then config.json's end tokens hold).
Result<GenerationConfig> ReadGenerationConfig(const std::string& dir);

}  // namespace tidemill
