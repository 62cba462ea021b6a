#include "engine/constraint/schema_resolver.h"

#include <algorithm>
#include <vector>

namespace tidemill {
namespace {

constexpr size_t kMergeDepth = 64;
constexpr size_t kMadeMax = 1'000'000;  // values in all schemas that are made

std::string Dumped(const SchemaJson& value) {
  return value.dump(-1, ' ', false, SchemaJson::error_handler_t::replace);
}

// A step of a JSON pointer.
std::string Unescaped(std::string_view step) {
  std::string text;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] == '~' && i + 1 < step.size() && (step[i + 1] == '0' || step[i + 1] == '1')) {
      text.push_back(step[++i] == '0' ? '~' : '/');
    } else if (step[i] == '%' && i + 2 < step.size()) {
      text.push_back(static_cast<char>(std::stoi(std::string(step.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
    } else {
      text.push_back(step[i]);
    }
  }
  return text;
}

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Takes the word out; where it leaves out the rest, `by` does.
Status Close(SchemaJson& schema, const char* word, const char* by) {
  if (!schema.contains(word)) return Ok();
  const bool none = schema[word] == false;
  if (!none && schema[word] != true) return Ok();
  schema.erase(word);
  if (!none || schema.contains(by)) return Ok();
  if (schema.contains("anyOf") || schema.contains("oneOf")) {
    return Invalid("\"" + std::string(word) + "\" is not supported here");
  }
  schema[by] = false;
  return Ok();
}

// A schema within others does not see what they say: what it leaves out is left out for good.
Result<SchemaJson> Closed(SchemaJson schema) {
  const bool old_form = schema.contains("items") && schema["items"].is_array();
  TM_RETURN_IF_ERROR(Close(schema, "unevaluatedProperties", "additionalProperties"));
  TM_RETURN_IF_ERROR(Close(schema, "unevaluatedItems", old_form ? "additionalItems" : "items"));
  return schema;
}

}  // namespace

Status SchemaResolver::CheckWords(const SchemaJson& schema) const {
  for (const auto& [word, value] : schema.items()) {
    if (UseOfKeyword(word) == KeywordUse::kRefused) {
      return Invalid("\"" + word + "\" is not supported");
    }
  }
  if (&schema != &root_ && schema.contains("$id")) {
    return Invalid("\"$id\" inside of the schema is not supported");
  }
  return Ok();
}

Status SchemaResolver::Spend(const SchemaJson& made) {
  spent_ += ValuesIn(made);
  if (spent_ <= kMadeMax) return Ok();
  return Invalid("references and \"allOf\" make it too large");
}

Result<SchemaJson> SchemaResolver::Merge(const SchemaJson& a, const SchemaJson& b) {
  TM_ASSIGN_OR_RETURN(SchemaJson merged, MergeSchemas(a, b));
  TM_RETURN_IF_ERROR(Spend(merged));
  return merged;
}

SchemaJson SchemaResolver::Beside(const SchemaJson& schema, std::string_view word) {
  SchemaJson rest = SchemaJson::object();
  for (const auto& [key, value] : schema.items()) {
    if (key != word && key != "$defs" && key != "definitions" &&
        UseOfKeyword(key) != KeywordUse::kRemark) {
      rest[key] = value;
    }
  }
  return rest;
}

Result<const SchemaJson*> SchemaResolver::Find(const std::string& reference) const {
  if (reference.empty() || reference[0] != '#' || (reference.size() > 1 && reference[1] != '/')) {
    return Invalid("\"$ref\" " + Dumped(reference) +
                   " is not supported: it must begin with \"#/\"");
  }
  const SchemaJson* at = &root_;
  for (size_t begin = 2; begin <= reference.size() && reference.size() > 1;) {
    const size_t end = std::min(reference.find('/', begin), reference.size());
    const std::string_view step = std::string_view(reference).substr(begin, end - begin);
    for (size_t i = 0; i < step.size(); ++i) {
      if (step[i] == '%' && !(i + 2 < step.size() && IsHex(step[i + 1]) && IsHex(step[i + 2]))) {
        return Invalid("\"$ref\" " + Dumped(reference) + " has a \"%\" without two digits");
      }
    }
    const std::string key = Unescaped(step);
    if (at->is_object() && at->contains(key)) {
      at = &(*at)[key];
    } else if (at->is_array() && !key.empty() && key.size() < 9 &&
               std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
               std::stoul(key) < at->size()) {
      at = &(*at)[std::stoul(key)];
    } else {
      return Invalid("\"$ref\" " + Dumped(reference) + " names nothing in the schema");
    }
    begin = end + 1;
  }
  return at;
}

Result<SchemaJson> SchemaResolver::FlatAt(const SchemaJson& schema, bool within, size_t depth) {
  if (depth > kMergeDepth) return Invalid("references are nested too deep, or in a circle");
  if (schema.is_boolean()) return schema;
  if (!schema.is_object()) return Invalid("a schema is an object or a boolean");
  TM_RETURN_IF_ERROR(CheckWords(schema));
  TM_RETURN_IF_ERROR(Spend(schema));
  SchemaJson flat;
  if (schema.contains("$ref") && schema["$ref"].is_string()) {
    TM_ASSIGN_OR_RETURN(const SchemaJson* target, Find(schema["$ref"].get<std::string>()));
    TM_ASSIGN_OR_RETURN(const SchemaJson of_target, FlatAt(*target, true, depth + 1));
    TM_ASSIGN_OR_RETURN(const SchemaJson rest, FlatAt(Beside(schema, "$ref"), false, depth + 1));
    TM_ASSIGN_OR_RETURN(flat, Merge(of_target, rest));
  } else if (schema.contains("allOf")) {
    if (!schema["allOf"].is_array() || schema["allOf"].empty()) {
      return Invalid("\"allOf\" must be a list with something in it");
    }
    flat = Beside(schema, "allOf");
    for (const SchemaJson& part : schema["allOf"]) {
      TM_ASSIGN_OR_RETURN(const SchemaJson of_part, FlatAt(part, true, depth + 1));
      TM_ASSIGN_OR_RETURN(flat, Merge(flat, of_part));
    }
  } else {
    flat = Beside(schema, "");
  }
  if (!within || !flat.is_object()) return flat;
  return Closed(std::move(flat));
}

}  // namespace tidemill
