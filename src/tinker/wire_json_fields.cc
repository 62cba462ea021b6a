#include "tinker/wire_json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

constexpr WireLimits kTinkerLimits{.values = 16'000'000};

std::string Named(const char* name) {
  return "\"" + std::string(name) + "\"";
}

}  // namespace

Result<WireJson> ParseFields(std::string_view text) {
  TM_ASSIGN_OR_RETURN(WireJson json, ParseWire(text, kTinkerLimits));
  if (!json.is_object()) return Invalid("the body must be a JSON object");
  return json;
}

const WireJson* FieldOf(const WireJson& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto field = json.find(name);
  return field == json.end() || field->is_null() ? nullptr : &*field;
}

Result<std::string> TextField(const WireJson& json, const char* name) {
  const WireJson* const field = FieldOf(json, name);
  if (field == nullptr || !field->is_string()) return Invalid(Named(name) + " must be a string");
  return field->get<std::string>();
}

Result<int64_t> WholeField(const WireJson& json, const char* name, int64_t least, int64_t most) {
  const WireJson* const field = FieldOf(json, name);
  const bool whole = field != nullptr && field->is_number_integer() &&
                     !(field->is_number_unsigned() && field->get<uint64_t>() > INT64_MAX);
  if (!whole || field->get<int64_t>() < least || field->get<int64_t>() > most) {
    return Invalid(Named(name) + " must be a whole number from " + std::to_string(least) + " to " +
                   std::to_string(most) + (field == nullptr ? "" : ", got " + ShownWire(*field)));
  }
  return field->get<int64_t>();
}

Result<int64_t> WholeField(const WireJson& json, const char* name, int64_t least, int64_t most,
                           int64_t absent) {
  if (FieldOf(json, name) == nullptr) return absent;
  return WholeField(json, name, least, most);
}

Result<double> NumberField(const WireJson& json, const char* name, double absent) {
  const WireJson* const field = FieldOf(json, name);
  if (field == nullptr) return absent;
  if (!field->is_number() || !std::isfinite(field->get<double>())) {
    return Invalid(Named(name) + " must be a number, got " + ShownWire(*field));
  }
  return field->get<double>();
}

Result<bool> BoolField(const WireJson& json, const char* name, bool absent) {
  const WireJson* const field = FieldOf(json, name);
  if (field == nullptr) return absent;
  if (!field->is_boolean()) return Invalid(Named(name) + " must be true or false");
  return field->get<bool>();
}

Result<std::optional<std::string>> OptionalText(const WireJson& json, const char* name) {
  if (FieldOf(json, name) == nullptr) return std::optional<std::string>();
  TM_ASSIGN_OR_RETURN(std::string text, TextField(json, name));
  return std::optional<std::string>(std::move(text));
}

Status ReadTokens(const WireJson* list, std::vector<int32_t>& tokens) {
  if (list == nullptr || !list->is_array())
    return Invalid("\"tokens\" must be a list of token ids");
  for (const WireJson& token : *list) {
    if (!token.is_number_integer() || token < 0 || token > INT32_MAX) {
      return Invalid("\"tokens\" must be a list of token ids, got " + ShownWire(token));
    }
    tokens.push_back(token.get<int32_t>());
  }
  return Ok();
}

}  // namespace tidemill
