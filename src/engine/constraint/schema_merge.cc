#include "engine/constraint/schema_merge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace tidemill {
namespace {

constexpr std::string_view kHonouredWords[] = {"$ref",
                                               "$defs",
                                               "definitions",
                                               "type",
                                               "enum",
                                               "const",
                                               "anyOf",
                                               "oneOf",
                                               "allOf",
                                               "properties",
                                               "required",
                                               "additionalProperties",
                                               "minProperties",
                                               "maxProperties",
                                               "items",
                                               "prefixItems",
                                               "additionalItems",
                                               "minItems",
                                               "maxItems",
                                               "minLength",
                                               "maxLength",
                                               "pattern",
                                               "format",
                                               "minimum",
                                               "maximum",
                                               "exclusiveMinimum",
                                               "exclusiveMaximum",
                                               "uniqueItems",
                                               "unevaluatedProperties",
                                               "unevaluatedItems",
                                               "multipleOf"};

constexpr std::string_view kRefusedWords[] = {"not",
                                              "if",
                                              "then",
                                              "else",
                                              "contains",
                                              "minContains",
                                              "maxContains",
                                              "patternProperties",
                                              "propertyNames",
                                              "dependencies",
                                              "dependentRequired",
                                              "dependentSchemas",
                                              "$dynamicRef",
                                              "$recursiveRef",
                                              "disallow",
                                              "extends",
                                              "divisibleBy"};

constexpr size_t kPairsMax = 256;  // of alternatives
constexpr int64_t kMultipleMax = 1'000'000;

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Result<SchemaJson> CannotMerge(std::string_view word) {
  return Invalid("\"" + std::string(word) + "\" stands in several schemas that hold together");
}

SchemaJson Both(const SchemaJson& a, const SchemaJson& b) {
  if (a == true || b == false) return b;
  if (b == true || a == false || a == b) return a;
  return SchemaJson{{"allOf", SchemaJson::array({a, b})}};
}

const SchemaJson& WordOr(const SchemaJson& schema, const char* word, const SchemaJson& otherwise) {
  return schema.contains(word) ? schema[word] : otherwise;
}

const SchemaJson& Anything() {
  static const SchemaJson anything = true;
  return anything;
}

const SchemaJson& NoMembers() {
  static const SchemaJson none = SchemaJson::object();
  return none;
}

// The members of objects that satisfy both.
void MergeMembers(const SchemaJson& a, const SchemaJson& b, SchemaJson& merged) {
  const SchemaJson &more_a = WordOr(a, "additionalProperties", Anything()),
                   &more_b = WordOr(b, "additionalProperties", Anything());
  const SchemaJson &of_a = WordOr(a, "properties", NoMembers()),
                   &of_b = WordOr(b, "properties", NoMembers());
  SchemaJson properties = SchemaJson::object();
  for (const auto& [name, schema] : of_a.items()) {
    properties[name] = Both(schema, of_b.contains(name) ? of_b[name] : more_b);
  }
  for (const auto& [name, schema] : of_b.items()) {
    if (!of_a.contains(name)) properties[name] = Both(more_a, schema);
  }
  if (a.contains("properties") || b.contains("properties")) {
    merged["properties"] = std::move(properties);
  }
  if (a.contains("additionalProperties") || b.contains("additionalProperties")) {
    merged["additionalProperties"] = Both(more_a, more_b);
  }
}

// The items of arrays, in either form.
struct ItemWords {
  SchemaJson first = SchemaJson::array();
  std::optional<SchemaJson> rest{};

  explicit ItemWords(const SchemaJson& schema) {
    const bool old_form = schema.contains("items") && schema["items"].is_array();
    const char* rest_word = old_form ? "additionalItems" : "items";
    if (old_form) first = schema["items"];
    if (!old_form && schema.contains("prefixItems")) first = schema["prefixItems"];
    if (schema.contains(rest_word)) rest = schema[rest_word];
  }
  SchemaJson At(size_t place) const {
    return place < first.size() ? first[place] : rest.value_or(true);
  }
};

void MergeItems(const SchemaJson& a, const SchemaJson& b, SchemaJson& merged) {
  const ItemWords of_a(a), of_b(b);
  SchemaJson first = SchemaJson::array();
  for (size_t i = 0; i < std::max(of_a.first.size(), of_b.first.size()); ++i) {
    first.push_back(Both(of_a.At(i), of_b.At(i)));
  }
  for (const char* word : {"prefixItems", "items", "additionalItems"}) merged.erase(word);
  if (!first.empty()) merged["prefixItems"] = std::move(first);
  if (of_a.rest || of_b.rest) {
    merged["items"] = Both(of_a.rest.value_or(true), of_b.rest.value_or(true));
  }
}

bool IsMemberWord(std::string_view word) {
  return word == "properties" || word == "additionalProperties";
}

bool IsItemWord(std::string_view word) {
  return word == "items" || word == "prefixItems" || word == "additionalItems";
}

// What the merge reads has the form it should have.
Status CheckForms(const SchemaJson& schema) {
  if (schema.contains("properties") && !schema["properties"].is_object()) {
    return Invalid("\"properties\" must be an object");
  }
  if (schema.contains("prefixItems") && !schema["prefixItems"].is_array()) {
    return Invalid("\"prefixItems\" must be a list");
  }
  return Ok();
}

// Of alternatives that hold together each with each.
Result<SchemaJson> Pairs(const std::string& word, const SchemaJson& a, const SchemaJson& b) {
  if (!a.is_array() || !b.is_array()) return Invalid("\"" + word + "\" must be a list");
  if (a.size() * b.size() > kPairsMax) return CannotMerge(word);
  SchemaJson pairs = SchemaJson::array();
  for (const SchemaJson& one : a) {
    for (const SchemaJson& other : b) pairs.push_back(Both(one, other));
  }
  return pairs;
}

SchemaJson Patterns(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson patterns = a.is_array() ? a : SchemaJson::array({a});
  for (const SchemaJson& one : b.is_array() ? b : SchemaJson::array({b})) {
    if (!HoldsValue(patterns, one)) patterns.push_back(one);
  }
  return patterns;
}

SchemaJson CommonTypes(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson common = SchemaJson::array();
  for (const std::string& type : TypesOf(SchemaJson{{"type", a}})) {
    for (const std::string& other : TypesOf(SchemaJson{{"type", b}})) {
      if (type == other || (type == "integer" && other == "number")) common.push_back(type);
      if (type == "number" && other == "integer") common.push_back(other);
    }
  }
  return common;
}

SchemaJson Intersection(const SchemaJson& a, const SchemaJson& b) {
  SchemaJson common = SchemaJson::array();
  for (const SchemaJson& value : a) {
    if (HoldsValue(b, value)) common.push_back(value);
  }
  return common;
}

Result<SchemaJson> MergeWord(const std::string& word, const SchemaJson& a, const SchemaJson& b) {
  static constexpr std::string_view kLargest[] = {"minimum", "exclusiveMinimum", "minItems",
                                                  "minLength", "minProperties"};
  static constexpr std::string_view kSmallest[] = {"maximum", "exclusiveMaximum", "maxItems",
                                                   "maxLength", "maxProperties"};
  if (a == b) return a;
  if (Contains(kLargest, word) && a.is_number() && b.is_number()) return std::max(a, b);
  if (Contains(kSmallest, word) && a.is_number() && b.is_number()) return std::min(a, b);
  if (word == "type") return CommonTypes(a, b);
  if (word == "enum" && a.is_array() && b.is_array()) return Intersection(a, b);
  if (word == "pattern") return Patterns(a, b);
  if (word == "multipleOf" && a.is_number_integer() && b.is_number_integer()) {
    const auto one = a.get<int64_t>(), other = b.get<int64_t>();
    const bool small = one > 0 && other > 0 && one <= kMultipleMax && other <= kMultipleMax;
    if (small) return SchemaJson(std::lcm(one, other));
  }
  if (word == "anyOf" || word == "oneOf") return Pairs(word, a, b);
  if (word == "uniqueItems" || word == "unevaluatedProperties" || word == "unevaluatedItems") {
    if (a.is_boolean() && b.is_boolean())
      return word == "uniqueItems" ? (a == true ? a : b) : (a == false ? a : b);
  }
  if (word == "required" && a.is_array() && b.is_array()) {
    SchemaJson all = a;
    for (const SchemaJson& name : b) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    }
    return all;
  }
  if (word == "$defs" || word == "definitions") return a;  // references are read from the root
  return CannotMerge(word);
}

// Whether a member that `a` requires cannot stand in `b`.
bool MembersDiffer(const SchemaJson& a, const SchemaJson& b) {
  if (!a.contains("required") || !a["required"].is_array()) return false;
  const SchemaJson &of_a = WordOr(a, "properties", NoMembers()),
                   &of_b = WordOr(b, "properties", NoMembers());
  if (!of_a.is_object() || !of_b.is_object()) return false;
  for (const SchemaJson& name : a["required"]) {
    if (!name.is_string()) continue;
    const auto key = name.get<std::string>();
    if (!of_b.contains(key)) {
      if (WordOr(b, "additionalProperties", Anything()) == false) return true;
      continue;
    }
    const bool both = b.contains("required") && HoldsValue(b["required"], name);
    if (both && of_a.contains(key) && AreDisjoint(of_a[key], of_b[key])) return true;
    if (of_b[key] == false) return true;
  }
  return false;
}

// Whether the schema is about objects alone: by its type, or by all of its words.
bool IsOfObjects(const SchemaJson& schema) {
  static constexpr std::string_view kWords[] = {
      "properties",    "required", "additionalProperties", "minProperties",
      "maxProperties", "$defs",    "definitions"};
  if (schema.contains("type")) {
    const std::vector<std::string> types = TypesOf(schema);
    return types.size() == 1 && types[0] == "object";
  }
  return std::all_of(schema.items().begin(), schema.items().end(), [](const auto& item) {
    return Contains(kWords, item.key()) || UseOfKeyword(item.key()) == KeywordUse::kRemark;
  });
}

SchemaJson ConstantsOf(const SchemaJson& schema) {
  if (schema.contains("const")) return SchemaJson::array({schema["const"]});
  return schema.contains("enum") && schema["enum"].is_array() ? schema["enum"] : SchemaJson();
}

// Whether the constants have none of the types.
bool NoneIsOf(const SchemaJson& constants, const std::vector<std::string>& types) {
  return !constants.is_null() && !types.empty() &&
         std::none_of(constants.begin(), constants.end(), [&](const SchemaJson& value) {
           return std::any_of(types.begin(), types.end(),
                              [&](const std::string& type) { return IsOfType(value, type); });
         });
}

}  // namespace

size_t ValuesIn(const SchemaJson& value) {
  size_t count = 0;
  std::vector<const SchemaJson*> work{&value};
  while (!work.empty()) {
    const SchemaJson& next = *work.back();
    work.pop_back();
    ++count;
    if (!next.is_structured()) continue;
    for (const SchemaJson& inner : next) work.push_back(&inner);
  }
  return count;
}

bool IsSameValue(const SchemaJson& a, const SchemaJson& b) {
  return nlohmann::json(a) == nlohmann::json(b);
}

bool HoldsValue(const SchemaJson& list, const SchemaJson& value) {
  return std::any_of(list.begin(), list.end(), [&](const SchemaJson& one) {
    return one.type() == value.type()
               ? one == value || (one.is_structured() && IsSameValue(one, value))
               : one.is_number() && value.is_number() && one == value;
  });
}

KeywordUse UseOfKeyword(std::string_view word) {
  if (Contains(kHonouredWords, word)) return KeywordUse::kHonoured;
  return Contains(kRefusedWords, word) ? KeywordUse::kRefused : KeywordUse::kRemark;
}

Result<SchemaJson> MergeSchemas(const SchemaJson& a, const SchemaJson& b) {
  if (a == false || b == false) return SchemaJson(false);
  if (a == true) return b;
  if (b == true) return a;
  if (!a.is_object() || !b.is_object()) return Invalid("a schema is an object or a boolean");
  TM_RETURN_IF_ERROR(CheckForms(a));
  TM_RETURN_IF_ERROR(CheckForms(b));
  if (a.contains("const") && b.contains("const") && !IsSameValue(a["const"], b["const"])) {
    return SchemaJson(false);
  }
  SchemaJson merged = a;
  MergeMembers(a, b, merged);
  MergeItems(a, b, merged);
  for (const auto& [word, value] : b.items()) {
    if (UseOfKeyword(word) == KeywordUse::kRemark || IsMemberWord(word) || IsItemWord(word)) {
      continue;
    }
    if (word == "const") {
      merged[word] = value;
      continue;
    }
    if (!merged.contains(word)) {
      merged[word] = value;
      continue;
    }
    TM_ASSIGN_OR_RETURN(SchemaJson both, MergeWord(word, merged[word], value));
    merged[word] = std::move(both);
  }
  return merged;
}

std::vector<std::string> TypesOf(const SchemaJson& schema) {
  std::vector<std::string> types;
  if (!schema.is_object() || !schema.contains("type")) return types;
  const SchemaJson& type = schema["type"];
  if (type.is_string()) types.push_back(type.get<std::string>());
  if (type.is_array()) {
    for (const SchemaJson& one : type) {
      if (one.is_string()) types.push_back(one.get<std::string>());
    }
  }
  return types;
}

bool IsOfType(const SchemaJson& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "number") return value.is_number();
  if (type != "integer" || !value.is_number()) return false;
  return value.is_number_integer() || value.get<double>() == std::floor(value.get<double>());
}

bool AreDisjoint(const SchemaJson& a, const SchemaJson& b) {
  if (!a.is_object() || !b.is_object()) return a == false || b == false;
  const SchemaJson of_a = ConstantsOf(a), of_b = ConstantsOf(b);
  if (!of_a.is_null() && !of_b.is_null()) return Intersection(of_a, of_b).empty();
  const std::vector<std::string> types_a = TypesOf(a), types_b = TypesOf(b);
  if (!types_a.empty() && !types_b.empty() && CommonTypes(a["type"], b["type"]).empty()) {
    return true;
  }
  if (NoneIsOf(of_a, types_b) || NoneIsOf(of_b, types_a)) return true;
  if (!IsOfObjects(a) || !IsOfObjects(b)) return false;
  return MembersDiffer(a, b) || MembersDiffer(b, a);
}

Result<bool> FitsSchema(const SchemaJson& value, const SchemaJson& schema) {
  const std::vector<std::string> types = TypesOf(schema);
  if (!types.empty() && std::none_of(types.begin(), types.end(), [&](const std::string& type) {
        return IsOfType(value, type);
      })) {
    return false;
  }
  const auto characters = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  };
  for (const auto& [word, bound] : schema.items()) {
    if (word == "type" || word == "enum" || word == "const" || word == "$defs" ||
        word == "definitions" || UseOfKeyword(word) == KeywordUse::kRemark) {
      continue;
    }
    const bool number = value.is_number() && bound.is_number();
    if (word == "minimum") {
      if (number && value < bound) return false;
    } else if (word == "maximum") {
      if (number && value > bound) return false;
    } else if (word == "exclusiveMinimum") {
      if (number && value <= bound) return false;
    } else if (word == "exclusiveMaximum") {
      if (number && value >= bound) return false;
    } else if (word == "minLength" || word == "maxLength") {
      if (!value.is_string() || !bound.is_number()) continue;
      const auto length = static_cast<double>(characters(value.get<std::string>()));
      if (word == "minLength" ? length < bound.get<double>() : length > bound.get<double>()) {
        return false;
      }
    } else {
      return Invalid("\"" + word + "\" beside constants is not supported");
    }
  }
  return true;
}

}  // namespace tidemill
