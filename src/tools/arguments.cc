#include "tools/arguments.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using Json = nlohmann::json;
constexpr size_t kBytesMax = 4 << 20;
constexpr int kDepthMax = 32;

}  // namespace

Result<Arguments> Arguments::Parse(const std::string& text) {
  Arguments arguments;
  if (text.empty()) return arguments;
  if (text.size() > kBytesMax) return Invalid("the arguments are larger than 4 MiB");
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  const Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) return Invalid("the arguments must be a JSON object");
  for (const auto& [name, value] : json.items()) {
    Value& kept = arguments.values_[name];
    if (value.is_string()) {
      kept.kind = Value::Kind::kText;
      kept.text = value.get<std::string>();
      arguments.words_[name] = kept.text;
    } else if (value.is_number_integer()) {
      kept.kind = Value::Kind::kNumber;
      kept.number = value.get<int64_t>();
      arguments.words_[name] = std::to_string(kept.number);
    } else if (value.is_boolean()) {
      arguments.words_[name] = value.get<bool>() ? "true" : "false";
    } else if (value.is_array()) {
      bool texts = true;
      for (const Json& item : value) texts = texts && item.is_string();
      if (!texts) continue;
      kept.kind = Value::Kind::kTexts;
      for (const Json& item : value) kept.texts.push_back(item.get<std::string>());
    }
  }
  return arguments;
}

Result<std::optional<std::string>> Arguments::Text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::optional<std::string>();
  if (found->second.kind != Value::Kind::kText) {
    return Invalid(fmt::format("the argument \"{}\" must be a string", name));
  }
  return std::optional<std::string>(found->second.text);
}

Result<std::optional<int64_t>> Arguments::Number(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::optional<int64_t>();
  if (found->second.kind != Value::Kind::kNumber) {
    return Invalid(fmt::format("the argument \"{}\" must be a whole number", name));
  }
  return std::optional<int64_t>(found->second.number);
}

Result<std::optional<std::vector<std::string>>> Arguments::Texts(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::optional<std::vector<std::string>>();
  if (found->second.kind == Value::Kind::kText) {
    return std::optional<std::vector<std::string>>({found->second.text});
  }
  if (found->second.kind != Value::Kind::kTexts) {
    return Invalid(fmt::format("the argument \"{}\" must be an array of strings", name));
  }
  return std::optional<std::vector<std::string>>(found->second.texts);
}

Result<std::string> Arguments::Need(std::string_view name) const {
  TM_ASSIGN_OR_RETURN(std::optional<std::string> text, Text(name));
  if (!text) return Invalid(fmt::format("the argument \"{}\" is missing", name));
  return *std::move(text);
}

}  // namespace tidemill
