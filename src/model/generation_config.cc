#include "model/generation_config.h"

#include <limits>

#include "core/files.h"
#include "model/json_fields.h"

namespace tidemill {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

std::optional<int32_t> Narrow(std::optional<int64_t> value) {
  return value ? std::optional(static_cast<int32_t>(*value)) : std::nullopt;
}

// An id of -1, which some files write, is no token; of a list the first counts.
}  // namespace

Result<GenerationConfig> ParseGenerationConfig(std::string_view json, std::string_view name) {
  TM_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(json, name));
  JsonFields fields(object, std::string(name) + ": ");
  GenerationConfig config;
  config.eos_token_ids = fields.TokenIds("eos_token_id");
  config.bos_token_id = fields.MaybeTokenId("bos_token_id");
  config.pad_token_id = fields.MaybeTokenId("pad_token_id");
  config.do_sample = fields.MaybeBool("do_sample");
  config.temperature = fields.MaybeNumber("temperature", 0.0, 1000.0);
  config.top_p = fields.MaybeNumber("top_p", 0.0, 1.0);
  config.top_k = Narrow(fields.MaybeInt("top_k", 0, kInt32Max));
  config.min_p = fields.MaybeNumber("min_p", 0.0, 1.0);
  config.max_new_tokens = Narrow(fields.MaybeInt("max_new_tokens", 1, kInt32Max));
  TM_RETURN_IF_ERROR(fields.status());
  return config;
}

Result<GenerationConfig> ReadGenerationConfig(const std::string& dir) {
  const std::string path = dir + "/generation_config.json";
  TM_ASSIGN_OR_RETURN(const std::string json, ReadFileBounded(path, kConfigBytesMax));
  return ParseGenerationConfig(json, path);
}

}  // namespace tidemill
