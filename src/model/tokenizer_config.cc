#include "model/tokenizer_config.h"

#include "core/files.h"
#include "model/json_fields.h"

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

// One template, or a list of named ones of which "default" is taken.
std::string ReadTemplate(JsonFields& fields) {
  const nlohmann::json* value = fields.Find("chat_template");
  if (value == nullptr || !value->is_array())
    return fields.MaybeString("chat_template").value_or("");
  for (const nlohmann::json& entry : *value) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
        !entry["template"].is_string()) {
      fields.Fail("chat_template", "must be a string or a list of {\"name\", \"template\"}");
      return "";
    }
    if (entry["name"] == "default") return entry["template"].get<std::string>();
  }
  return "";
}

}  // namespace

Result<TokenizerConfig> ParseTokenizerConfig(std::string_view json, std::string_view name) {
  TM_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(json, name));
  JsonFields fields(object, std::string(name) + ": ");
  TokenizerConfig config;
  config.bos_token = ReadToken(fields, "bos_token");
  config.eos_token = ReadToken(fields, "eos_token");
  config.pad_token = ReadToken(fields, "pad_token");
  config.chat_template = ReadTemplate(fields);
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
  Result<std::string> jinja = ReadFileBounded(dir + "/chat_template.jinja", kConfigBytesMax);
  if (jinja.ok()) {
    config.chat_template = std::move(*jinja);
  } else if (jinja.status().code() != Code::kNotFound) {
    return jinja.status();
  }
  return config;
}

}  // namespace tidemill
