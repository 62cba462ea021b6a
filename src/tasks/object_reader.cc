#include "tasks/object_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/nearest.h"
#include "core/text.h"

namespace tidemill {

using nlohmann::json;

std::string Shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  constexpr size_t kShownMax = 60;
  return Beginning(value.dump(-1, ' ', false, json::error_handler_t::replace), kShownMax);
}

ObjectReader::ObjectReader(const json& object, std::string path, std::vector<std::string>& errors)
    : object_(object), path_(std::move(path)), errors_(errors) {}

bool ObjectReader::IsObject() {
  if (object_.is_object()) return true;
  Fail("", "must be an object, got " + Shown(object_));
  return false;
}

bool ObjectReader::Has(std::string_view name) const {
  return object_.is_object() && object_.contains(name);
}

const json* ObjectReader::Find(std::string_view name) {
  known_.emplace_back(name);
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

const json* ObjectReader::Child(std::string_view name) {
  return Find(name);
}

void ObjectReader::String(std::string_view name, std::string& out) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_string()) return Fail(name, "must be a string, got " + Shown(*value));
  out = value->get<std::string>();
}

void ObjectReader::Unsigned(std::string_view name, uint64_t max, uint32_t& out) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 || value->get<uint64_t>() > max) {
    return Fail(
        name, "must be a whole number from 1 to " + std::to_string(max) + ", got " + Shown(*value));
  }
  out = value->get<uint32_t>();
}

void ObjectReader::Number(std::string_view name, double& out) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    return Fail(name, "must be a number, got " + Shown(*value));
  }
  out = value->get<double>();
}

void ObjectReader::Bool(std::string_view name, bool& out) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Fail(name, "must be true or false, got " + Shown(*value));
  out = value->get<bool>();
}

void ObjectReader::Strings(std::string_view name, const std::function<void(std::string)>& add) {
  const json* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_array()) {
    return Fail(name, "must be an array of strings, got " + Shown(*value));
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const json& element = (*value)[i];
    if (element.is_string()) {
      add(element.get<std::string>());
    } else {
      Fail(std::string(name) + "[" + std::to_string(i) + "]",
           "must be a string, got " + Shown(element));
    }
  }
}

void ObjectReader::OneOf(std::string_view name,
                         const std::vector<std::pair<std::string, int>>& words, int& out) {
  const json* value = Find(name);
  if (value == nullptr) return;
  std::string expected;
  std::vector<std::string> names;
  for (const auto& [word, meaning] : words) {
    if (value->is_string() && value->get_ref<const std::string&>() == word) {
      out = meaning;
      return;
    }
    names.push_back(word);
    expected += (expected.empty() ? "\"" : " or \"") + word + "\"";
  }
  const std::string hint =
      value->is_string() ? DidYouMean(value->get_ref<const std::string&>(), names) : "";
  Fail(name, "must be " + expected + ", got " + Shown(*value) + (hint.empty() ? "" : "." + hint));
}

void ObjectReader::Require(std::string_view name, std::string_view expected) {
  if (!Has(name)) Fail(name, "is missing; expected " + std::string(expected));
}

void ObjectReader::Fail(std::string_view name, std::string_view what) {
  const std::string path = PathOf(name);
  errors_.push_back((path.empty() ? "the line" : path) + ": " + std::string(what));
}

std::string ObjectReader::PathOf(std::string_view name) const {
  if (path_.empty() || name.empty()) return path_ + std::string(name);
  return path_ + "." + std::string(name);
}

void ObjectReader::RefuseOthers() {
  if (!object_.is_object()) return;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    Fail(name, "unknown field." + DidYouMean(name, known_));
  }
}

}  // namespace tidemill
