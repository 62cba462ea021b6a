#include "policy/tokenizer_config.h"

#include "core/files.h"
#include "policy/json_fields.h"

namespace tidemill {
namespace {

// "<|im_end|>", or {"content": "<|im_end|>", ..}.
std::optional<std::string> ReadToken(JsonFields& fields, const char* key) {
  const nlohmann::json* value = fields.Find(key);
  if (value == nullptr || !value->is_object()) return fields.MaybeString(key);
  const auto content = value->find("content");
  if (content != value->end() && content->is_string()) return content->get<std::string>();
  fields.Fail(key, "must be a string or an object with a \"content\"");
  return std::nullopt;
}

// One template, or a list of named ones of which "default" and "tool_use" are taken.
void ReadTemplates(JsonFields& fields, TokenizerConfig& config) {
  const nlohmann::json* value = fields.Find("chat_template");
  if (value == nullptr || !value->is_array()) {
    config.chat_template = fields.MaybeString("chat_template").value_or("");
    return;
  }
  for (const nlohmann::json& entry : *value) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
        !entry["template"].is_string()) {
      fields.Fail("chat_template", "must be a string or a list of {\"name\", \"template\"}");
      return;
    }
    if (entry["name"] == "default") config.chat_template = entry["template"].get<std::string>();
    if (entry["name"] == "tool_use") config.tool_template = entry["template"].get<std::string>();
  }
}

Status ReadSpecialTokensMap(const std::string& dir, TokenizerConfig& config) {
  const std::string path = dir + "/special_tokens_map.json";
  const Result<std::string> json = ReadFileBounded(path, kConfigBytesMax);
  if (!json.ok()) return json.status().code() == Code::kNotFound ? Ok() : json.status();
  TM_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(*json, path));
  JsonFields fields(object, path + ": ");
  if (!config.bos_token) config.bos_token = ReadToken(fields, "bos_token");
  if (!config.eos_token) config.eos_token = ReadToken(fields, "eos_token");
  if (!config.pad_token) config.pad_token = ReadToken(fields, "pad_token");
  return fields.status();
}

}  // namespace

Result<TokenizerConfig> ParseTokenizerConfig(std::string_view json, std::string_view name) {
  TM_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(json, name));
  JsonFields fields(object, std::string(name) + ": ");
  TokenizerConfig config;
  config.bos_token = ReadToken(fields, "bos_token");
  config.eos_token = ReadToken(fields, "eos_token");
  config.pad_token = ReadToken(fields, "pad_token");
  ReadTemplates(fields, config);
  TM_RETURN_IF_ERROR(fields.status());
  return config;
}

Result<TokenizerConfig> ReadTokenizerConfig(const std::string& dir) {
  TokenizerConfig config;
  const std::string path = dir + "/tokenizer_config.json";
  const Result<std::string> json = ReadFileBounded(path, kConfigBytesMax);
  if (json.ok()) {
    TM_ASSIGN_OR_RETURN(config, ParseTokenizerConfig(*json, path));
  } else if (json.status().code() != Code::kNotFound) {
    return json.status();
  }
  TM_RETURN_IF_ERROR(ReadSpecialTokensMap(dir, config));
  Result<std::string> jinja = ReadFileBounded(dir + "/chat_template.jinja", kConfigBytesMax);
  if (jinja.ok()) {
    config.chat_template = std::move(*jinja);
    config.tool_template.clear();
  } else if (jinja.status().code() != Code::kNotFound) {
    return jinja.status();
  }
  return config;
}

}  // namespace tidemill
