// Schemas that hold together ("allOf", and what stands beside "$ref" and "anyOf") as one schema.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

using SchemaJson = nlohmann::ordered_json;

enum class KeywordUse : uint8_t {
  kHonoured,
  kRemark,   // says nothing about which documents are valid
  kRefused,  // does, and is not supported
};
// A word that no draft of JSON Schema knows is a remark.
KeywordUse UseOfKeyword(std::string_view word);

// What satisfies both. kInvalid names the keyword that cannot be put together. Neither has a
// "$ref". Several patterns become a list.
Result<SchemaJson> MergeSchemas(const SchemaJson& a, const SchemaJson& b);

// All values of lists, objects and their insides counted.
size_t ValuesIn(const SchemaJson& value);

// Whether they are the same value: members in any order, 1 and 1.0.
bool IsSameValue(const SchemaJson& a, const SchemaJson& b);
bool HoldsValue(const SchemaJson& list, const SchemaJson& value);

// Whether no document satisfies both, as far as types and constants show.
bool AreDisjoint(const SchemaJson& a, const SchemaJson& b);

// Whether `value` satisfies what the schema says of single values: type, bounds, lengths. kInvalid:
// it says more.
Result<bool> FitsSchema(const SchemaJson& value, const SchemaJson& schema);

// The schema's types; empty: it does not say.
std::vector<std::string> TypesOf(const SchemaJson& schema);
bool IsOfType(const SchemaJson& value, std::string_view type);

}  // namespace tidemill
