#include "model/json_fields.h"

#include <cmath>
#include <limits>

namespace tidemill {

Result<nlohmann::json> ParseJson(std::string_view text, std::string_view name) {
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..": the rest says where.
    std::string what = error.what();
    if (const size_t bracket = what.find("] "); bracket != std::string::npos) {
      what = what.substr(bracket + 2);
    }
    return Invalid(std::string(name) + ": not JSON: " + what);
  }
}

Result<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view name) {
  TM_ASSIGN_OR_RETURN(nlohmann::json value, ParseJson(text, name));
  if (!value.is_object()) {
    return Invalid(std::string(name) + ": must be a JSON object, got " + DescribeJson(value));
  }
  return value;
}

std::string DescribeJson(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  std::string text = value.dump(-1, ' ', true);  // ASCII, so that it can be cut anywhere
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

const nlohmann::json* JsonFields::Find(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void JsonFields::Fail(std::string_view key, std::string_view problem) {
  if (!status_.ok()) return;
  status_ = Invalid(where_ + "\"" + std::string(key) + "\" " + std::string(problem));
}

std::optional<int64_t> JsonFields::MaybeInt(const char* key, int64_t min, int64_t max) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const bool fits = value->is_number_unsigned()
                        ? value->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                        : value->is_number_integer();
  if (!fits || value->get<int64_t>() < min || value->get<int64_t>() > max) {
    Fail(key, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max) +
                  ", got " + DescribeJson(*value));
    return std::nullopt;
  }
  return value->get<int64_t>();
}

int64_t JsonFields::Int(const char* key, int64_t min, int64_t max) {
  if (!Has(key)) {
    Fail(key, "is missing");
    return min;
  }
  return MaybeInt(key, min, max).value_or(min);
}

std::optional<double> JsonFields::MaybeNumber(const char* key, double min, double max) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= min && number <= max)) {
    Fail(key, "must be a number from " + nlohmann::json(min).dump() + " to " +
                  nlohmann::json(max).dump() + ", got " + DescribeJson(*value));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> JsonFields::MaybeBool(const char* key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    Fail(key, "must be true or false, got " + DescribeJson(*value));
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> JsonFields::MaybeString(const char* key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    Fail(key, "must be a string, got " + DescribeJson(*value));
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::vector<int32_t> JsonFields::TokenIds(const char* key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return {};
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
      Fail(key, "must be a token id or a list of them, got " + DescribeJson(id));
      return {};
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::optional<int32_t> JsonFields::MaybeTokenId(const char* key) {
  const nlohmann::json* value = Find(key);
  if (value != nullptr && value->is_number_integer() && value->get<int64_t>() == -1) return {};
  const std::vector<int32_t> ids = TokenIds(key);
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

std::vector<std::string> JsonFields::Strings(const char* key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return {};
  std::vector<std::string> strings;
  if (!value->is_array()) {
    Fail(key, "must be a list of strings, got " + DescribeJson(*value));
    return {};
  }
  for (const nlohmann::json& item : *value) {
    if (!item.is_string()) {
      Fail(key, "must be a list of strings, got " + DescribeJson(item) + " in it");
      return {};
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

std::string DumpJson(const nlohmann::ordered_json& value) {
  return value.dump(2) + "\n";
}

}  // namespace tidemill
