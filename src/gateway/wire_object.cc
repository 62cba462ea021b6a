#include "gateway/wire_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr size_t kUnknownMax = 16;  // that are told

}  // namespace

std::string WirePlace::Path() const {
  std::string path = parent == nullptr ? "" : parent->Path();
  if (key.empty()) return parent == nullptr ? path : path + fmt::format("[{}]", index);
  const std::string name = ToUtf8(Beginning(key, 100));
  return path.empty() ? name : path + "." + name;
}

void WireParse::Fail(const WirePlace& at, std::string_view problem, std::string_view code) {
  if (failed()) return;
  const std::string path = at.Path();
  Fail({.status = 400,
        .message = path.empty() ? std::string(problem) : fmt::format("{}: {}", path, problem),
        .param = path,
        .code = std::string(code)});
}

void WireParse::Fail(ApiError error) {
  if (!failed()) error_ = std::move(error);
}

void WireParse::Ignore(const FieldRule& rule) {
  if (std::find(ignored_rules_.begin(), ignored_rules_.end(), &rule) != ignored_rules_.end()) {
    return;
  }
  ignored_rules_.push_back(&rule);
  ignored_.push_back(rule.where.empty() ? std::string(rule.name)
                                        : fmt::format("{}.{}", rule.where, rule.name));
}

bool WireParse::Allow(std::string_view where, std::string_view name, const WirePlace& at,
                      const WireJson& value) {
  const FieldRule* rule = FindRule(api_, where, name);
  if (rule == nullptr) {
    if (name.starts_with("type=")) {
      Fail(at, fmt::format("unknown type {}", ShownWire(std::string(name.substr(5)))));
    } else if (!limits_.ignore_unknown) {
      Fail(at, "unknown field", "unknown_parameter");
    } else if (unknown_.size() < kUnknownMax) {
      unknown_.push_back(at.Path());
    }
    return false;
  }
  switch (rule->treatment) {
    case Treatment::kHonoured:
      return true;
    case Treatment::kIgnored:
      Ignore(*rule);
      return false;
    case Treatment::kRefused:
      break;
  }
  if (IsHarmless(*rule, value)) return false;
  if (name == "thread" && where.empty()) {
    Fail(at, "not supported; send the whole conversation", "thread_unsupported_request");
  } else {
    Fail(at, fmt::format("not supported: {}", rule->note), "unsupported_parameter");
  }
  return false;
}

WireObject::WireObject(WireParse& parse, const WireJson& value, const WirePlace& at,
                       std::string_view where)
    : parse_(parse), value_(value.is_object() ? &value : nullptr), at_(at), where_(where) {
  if (value_ == nullptr) {
    parse_.Fail(at_, fmt::format("must be an object, got {}", ShownWire(value)), "invalid_type");
    return;
  }
  for (const auto& [key, field] : value_->get_ref<const WireJson::object_t&>()) {
    if (parse_.failed()) return;
    if (!field.is_null()) parse_.Allow(where_, key, PlaceOf(key), field);
  }
}

const WireJson* WireObject::Find(std::string_view key) const {
  if (value_ == nullptr) return nullptr;
  for (const auto& [name, field] : value_->get_ref<const WireJson::object_t&>()) {
    if (name == key) return field.is_null() ? nullptr : &field;
  }
  return nullptr;
}

void WireObject::Fail(std::string_view key, std::string_view problem, std::string_view code) const {
  parse_.Fail(PlaceOf(key), problem, code);
}

void WireObject::WrongType(std::string_view key, std::string_view expected,
                           const WireJson& value) const {
  Fail(key, fmt::format("must be {}, got {}", expected, ShownWire(value)), "invalid_type");
}

std::optional<std::string> WireObject::String(std::string_view key) const {
  const WireJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    WrongType(key, "a string", *value);
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::string WireObject::RequiredString(std::string_view key) const {
  Require(key);
  std::string value = String(key).value_or("");
  if (value.empty()) Fail(key, "must not be empty");
  return value;
}

std::optional<bool> WireObject::Bool(std::string_view key) const {
  const WireJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    WrongType(key, "true or false", *value);
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<int64_t> WireObject::Int(std::string_view key, int64_t min, int64_t max) const {
  const WireJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::string expected = fmt::format("a whole number from {} to {}", min, max);
  int64_t number = 0;
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{INT64_MAX}) {
    Fail(key, fmt::format("must be {}, got {}", expected, ShownWire(*value)));
    return std::nullopt;
  }
  if (value->is_number_integer()) {
    number = value->get<int64_t>();
  } else if (value->is_number_float() && std::abs(value->get<double>()) < 1e15 &&
             value->get<double>() == std::floor(value->get<double>())) {
    number = static_cast<int64_t>(value->get<double>());  // 100.0, as some languages write 100
  } else {
    WrongType(key, expected, *value);
    return std::nullopt;
  }
  if (number < min || number > max) {
    Fail(key, fmt::format("must be {}, got {}", expected, number));
    return std::nullopt;
  }
  return number;
}

std::optional<double> WireObject::Number(std::string_view key, double min, double max) const {
  const WireJson* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    WrongType(key, "a number", *value);
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (!(number >= min && number <= max)) {
    Fail(key, fmt::format("must be from {} to {}, got {}", min, max, ShownWire(*value)));
    return std::nullopt;
  }
  return number;
}

bool WireObject::List(std::string_view key, size_t max,
                      const std::function<void(const WireJson&, const WirePlace&)>& each) const {
  const WireJson* value = Find(key);
  if (value == nullptr) return false;
  if (!value->is_array()) {
    WrongType(key, "a list", *value);
    return true;
  }
  if (value->size() > max) {
    Fail(key, fmt::format("has {} elements, at most {} are allowed", value->size(), max),
         "array_above_max_length");
    return true;
  }
  const WirePlace list = PlaceOf(key);
  for (size_t i = 0; i < value->size() && !parse_.failed(); ++i) {
    each((*value)[i], WirePlace{&list, {}, i});
  }
  return true;
}

std::vector<std::string> WireObject::Strings(std::string_view key, size_t max) const {
  std::vector<std::string> strings;
  List(key, max, [&](const WireJson& value, const WirePlace& at) {
    if (value.is_string()) {
      strings.push_back(value.get<std::string>());
    } else {
      parse_.Fail(at, fmt::format("must be a string, got {}", ShownWire(value)), "invalid_type");
    }
  });
  return strings;
}

const WireJson* WireObject::Object(std::string_view key) const {
  const WireJson* value = Find(key);
  if (value != nullptr && !value->is_object()) {
    WrongType(key, "an object", *value);
    return nullptr;
  }
  return value;
}

void WireObject::Require(std::string_view key) const {
  if (value_ != nullptr && Find(key) == nullptr) {
    Fail(key, "is required", "missing_required_parameter");
  }
}

}  // namespace tidemill
