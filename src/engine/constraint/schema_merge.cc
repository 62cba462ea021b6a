#include "engine/constraint/schema_merge.h"

#include <algorithm>

#include <cmath>
#include <span>

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

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Result<SchemaJson> CannotMerge(std::string_view word) {
  return Invalid("\"" + std::string(word) + "\" stands in several schemas that hold together");
}

SchemaJson Both(const SchemaJson& a, const SchemaJson& b) {
  if (a == b) return a;
  return SchemaJson{{"allOf", SchemaJson::array({a, b})}};
}

bool IsClosed(const SchemaJson& schema) {
  return schema.contains("additionalProperties") && schema["additionalProperties"] != true;
}

// Whether all properties of `b` are among those of `a`.
bool NamesWithin(const SchemaJson& b, const SchemaJson& a) {
  if (!b.contains("properties")) return true;
  for (const auto& [name, schema] : b["properties"].items()) {
    if (!a.contains("properties") || !a["properties"].contains(name)) return false;
  }
  return true;
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
    if (std::find(b.begin(), b.end(), value) != b.end()) common.push_back(value);
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
  if (word == "items") return Both(a, b);
  if (word == "required" && a.is_array() && b.is_array()) {
    SchemaJson all = a;
    for (const SchemaJson& name : b) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    }
    return all;
  }
  if (word == "properties" && a.is_object() && b.is_object()) {
    SchemaJson all = a;
    for (const auto& [name, schema] : b.items()) {
      all[name] = all.contains(name) ? Both(all[name], schema) : schema;
    }
    return all;
  }
  if (word == "$defs" || word == "definitions") return a;  // references are read from the root
  return CannotMerge(word);
}

}  // namespace

KeywordUse UseOfKeyword(std::string_view word) {
  if (Contains(kHonouredWords, word)) return KeywordUse::kHonoured;
  return Contains(kRefusedWords, word) ? KeywordUse::kRefused : KeywordUse::kRemark;
}

Result<SchemaJson> MergeSchemas(const SchemaJson& a, const SchemaJson& b) {
  if (a == false || b == false) return SchemaJson(false);
  if (a == true) return b;
  if (b == true) return a;
  if (!a.is_object() || !b.is_object()) return Invalid("a schema is an object or a boolean");
  if ((IsClosed(a) && !NamesWithin(b, a)) || (IsClosed(b) && !NamesWithin(a, b))) {
    return CannotMerge("additionalProperties");
  }
  if (a.contains("const") && b.contains("const") && a["const"] != b["const"]) {
    return SchemaJson(false);
  }
  SchemaJson merged = a;
  for (const auto& [word, value] : b.items()) {
    if (UseOfKeyword(word) == KeywordUse::kRemark) continue;
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
  const auto constants = [](const SchemaJson& schema) {
    if (schema.contains("const")) return SchemaJson::array({schema["const"]});
    return schema.contains("enum") && schema["enum"].is_array() ? schema["enum"] : SchemaJson();
  };
  const SchemaJson of_a = constants(a), of_b = constants(b);
  if (!of_a.is_null() && !of_b.is_null()) return Intersection(of_a, of_b).empty();
  const std::vector<std::string> types_a = TypesOf(a), types_b = TypesOf(b);
  if (!types_a.empty() && !types_b.empty() && CommonTypes(a["type"], b["type"]).empty()) {
    return true;
  }
  const auto only = [](const SchemaJson& constant, const std::vector<std::string>& types) {
    return !constant.is_null() && !types.empty() &&
           std::none_of(constant.begin(), constant.end(), [&](const SchemaJson& value) {
             return std::any_of(types.begin(), types.end(),
                                [&](const std::string& type) { return IsOfType(value, type); });
           });
  };
  if (only(of_a, types_b) || only(of_b, types_a)) return true;
  // A property that both require and that tells them apart.
  const auto required = [](const SchemaJson& schema, const std::string& name) {
    return schema.contains("required") && schema["required"].is_array() &&
           std::find(schema["required"].begin(), schema["required"].end(), name) !=
               schema["required"].end();
  };
  if (types_a != types_b || !a.contains("properties") || !b.contains("properties")) return false;
  for (const auto& [name, schema] : a["properties"].items()) {
    if (!required(a, name) || !required(b, name) || !b["properties"].contains(name)) continue;
    const SchemaJson& other = b["properties"][name];
    if (schema.is_object() && other.is_object() && AreDisjoint(schema, other)) return true;
  }
  return false;
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
