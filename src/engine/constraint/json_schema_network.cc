#include "engine/constraint/json_schema_network.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/constraint/character_set.h"
#include "engine/constraint/json_shapes.h"
#include "engine/constraint/number_network.h"
#include "engine/constraint/regex_network.h"
#include "engine/constraint/schema_merge.h"
#include "engine/constraint/string_formats.h"

namespace tidemill {
namespace {

constexpr size_t kMergeDepth = 64;
constexpr size_t kPropertiesMax = 1000;
constexpr size_t kCountedPropertiesMax = 100;
constexpr size_t kKeyBytesMax = 1000;
constexpr size_t kSchemasMax = 20'000;

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
      text.push_back(
          static_cast<char>(std::stoi("0" + std::string(step.substr(i + 1, 2)), nullptr, 16)));
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

class SchemaWriter {
 public:
  SchemaWriter(NetworkBuilder& builder, const SchemaJson& root)
      : builder_(builder), shapes_(builder), root_(root) {}

  Status Write(NetworkState from, NetworkState to) {
    builder_.Call(from, RuleOf(root_, "the schema"), to);
    while (!work_.empty()) {
      const Work work = work_.front();
      work_.pop_front();
      if (builder_.full()) return Ok();  // Finish says so
      if (++written_ > kSchemasMax) return Invalid("it has more than 20000 schemas");
      const Status status = Value(work);
      if (!status.ok()) return status.WithContext(work.path);
    }
    return Ok();
  }

 private:
  // A schema that is still to be written into its rule.
  struct Work {
    const SchemaJson* schema = nullptr;
    NetworkState from = 0, to = 0;
    std::string path;
  };
  using Count = std::optional<size_t>;

  // The rule of a schema; written later. The schema stays where it is.
  NetworkRule RuleOf(const SchemaJson& schema, const std::string& path) {
    const auto [it, added] = rules_.try_emplace(&schema, 0);
    if (!added) return it->second;
    it->second = builder_.NewRule();
    work_.push_back({&schema, builder_.StartOf(it->second), builder_.EndOf(it->second), path});
    return it->second;
  }

  NetworkRule RuleOfMade(SchemaJson schema, const std::string& path) {
    made_.push_back(std::move(schema));
    return RuleOf(made_.back(), path);
  }

  Status Value(const Work& work) {
    const SchemaJson& schema = *work.schema;
    if (schema.is_boolean()) {
      if (schema == true) builder_.Call(work.from, shapes_.Any(), work.to);
      return Ok();
    }
    if (!schema.is_object()) return Invalid("a schema is an object or a boolean");
    for (const auto& [word, value] : schema.items()) {
      if (UseOfKeyword(word) == KeywordUse::kRefused) {
        return Invalid("\"" + word + "\" is not supported");
      }
    }
    if (schema.contains("$ref")) return Reference(work);
    if (schema.contains("allOf")) return AllOf(work);
    if (schema.contains("anyOf")) return AnyOf(work, "anyOf");
    if (schema.contains("oneOf")) return AnyOf(work, "oneOf");
    if (schema.contains("const") || schema.contains("enum")) return Constants(work);
    return ByType(work);
  }

  // What else a schema with such a word says about documents.
  static SchemaJson Beside(const SchemaJson& schema, std::string_view word) {
    SchemaJson rest = SchemaJson::object();
    for (const auto& [key, value] : schema.items()) {
      if (key != word && key != "$defs" && key != "definitions" &&
          UseOfKeyword(key) != KeywordUse::kRemark) {
        rest[key] = value;
      }
    }
    return rest;
  }

  Result<const SchemaJson*> Find(const std::string& reference) const {
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

  Status Reference(const Work& work) {
    const SchemaJson& schema = *work.schema;
    if (!schema["$ref"].is_string()) return Invalid("\"$ref\" must be a string");
    const std::string name = schema["$ref"].get<std::string>();
    TM_ASSIGN_OR_RETURN(const SchemaJson* target, Find(name));
    SchemaJson rest = Beside(schema, "$ref");
    if (rest.empty()) {
      builder_.Call(work.from, RuleOf(*target, name), work.to);
      return Ok();
    }
    TM_ASSIGN_OR_RETURN(SchemaJson flat, Flat(*target, 0));
    TM_ASSIGN_OR_RETURN(SchemaJson merged, MergeSchemas(flat, rest));
    builder_.Call(work.from, RuleOfMade(std::move(merged), work.path), work.to);
    return Ok();
  }

  // The same schema without "$ref" and "allOf" at its top.
  Result<SchemaJson> Flat(const SchemaJson& schema, size_t depth) const {
    if (depth > kMergeDepth) return Invalid("references are nested too deep, or in a circle");
    if (!schema.is_object()) return schema;
    for (const auto& [word, value] : schema.items()) {
      if (UseOfKeyword(word) == KeywordUse::kRefused) {
        return Invalid("\"" + word + "\" is not supported");
      }
    }
    if (schema.contains("$ref") && schema["$ref"].is_string()) {
      TM_ASSIGN_OR_RETURN(const SchemaJson* target, Find(schema["$ref"].get<std::string>()));
      TM_ASSIGN_OR_RETURN(const SchemaJson flat, Flat(*target, depth + 1));
      TM_ASSIGN_OR_RETURN(const SchemaJson rest, Flat(Beside(schema, "$ref"), depth + 1));
      return MergeSchemas(flat, rest);
    }
    if (!schema.contains("allOf")) return schema;
    if (!schema["allOf"].is_array()) return Invalid("\"allOf\" must be a list");
    SchemaJson merged = Beside(schema, "allOf");
    for (const SchemaJson& part : schema["allOf"]) {
      TM_ASSIGN_OR_RETURN(const SchemaJson flat, Flat(part, depth + 1));
      TM_ASSIGN_OR_RETURN(merged, MergeSchemas(merged, flat));
    }
    return merged;
  }

  Status AllOf(const Work& work) {
    TM_ASSIGN_OR_RETURN(SchemaJson merged, Flat(*work.schema, 0));
    builder_.Call(work.from, RuleOfMade(std::move(merged), work.path), work.to);
    return Ok();
  }

  Status AnyOf(const Work& work, const std::string& word) {
    const SchemaJson& schema = *work.schema;
    const SchemaJson& branches = schema[word];
    if (!branches.is_array() || branches.empty()) {
      return Invalid("\"" + word + "\" must be a list with something in it");
    }
    const SchemaJson rest = Beside(schema, word);
    std::vector<SchemaJson> flat;
    for (size_t i = 0; i < branches.size(); ++i) {
      const std::string path = work.path + "/" + word + "/" + std::to_string(i);
      if (rest.empty()) {
        builder_.Call(work.from, RuleOf(branches[i], path), work.to);
        if (word == "anyOf") continue;
      }
      TM_ASSIGN_OR_RETURN(SchemaJson branch, Flat(branches[i], 0));
      if (word == "oneOf") flat.push_back(branch);
      if (rest.empty()) continue;
      TM_ASSIGN_OR_RETURN(SchemaJson merged, MergeSchemas(rest, branch));
      builder_.Call(work.from, RuleOfMade(std::move(merged), path), work.to);
    }
    for (size_t i = 0; i < flat.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (AreDisjoint(flat[i], flat[j])) continue;
        return Invalid("\"oneOf\" whose branches " + std::to_string(j) + " and " +
                       std::to_string(i) +
                       " may both hold is not supported: use \"anyOf\", or a constant property "
                       "that tells them apart");
      }
    }
    return Ok();
  }

  Status Constants(const Work& work) {
    const SchemaJson& schema = *work.schema;
    SchemaJson values = schema.contains("enum") ? schema["enum"] : SchemaJson::array();
    if (!values.is_array()) return Invalid("\"enum\" must be a list");
    if (schema.contains("const")) {
      const bool fits = !schema.contains("enum") ||
                        std::find(values.begin(), values.end(), schema["const"]) != values.end();
      values = fits ? SchemaJson::array({schema["const"]}) : SchemaJson::array();
    }
    std::vector<std::string> texts;
    for (const SchemaJson& value : values) {
      TM_ASSIGN_OR_RETURN(const bool fits, FitsSchema(value, schema));
      if (fits) texts.push_back(Dumped(value));
    }
    AddTexts(builder_, work.from, std::move(texts), work.to);
    return Ok();
  }

  // Of a schema without types those that its words are about.
  static std::vector<std::string> ImpliedTypes(const SchemaJson& schema) {
    static const std::pair<const char*, const char*> kWords[] = {{"properties", "object"},
                                                                 {"required", "object"},
                                                                 {"additionalProperties", "object"},
                                                                 {"minProperties", "object"},
                                                                 {"maxProperties", "object"},
                                                                 {"items", "array"},
                                                                 {"prefixItems", "array"},
                                                                 {"minItems", "array"},
                                                                 {"maxItems", "array"},
                                                                 {"uniqueItems", "array"},
                                                                 {"minLength", "string"},
                                                                 {"maxLength", "string"},
                                                                 {"pattern", "string"},
                                                                 {"format", "string"},
                                                                 {"minimum", "number"},
                                                                 {"maximum", "number"},
                                                                 {"exclusiveMinimum", "number"},
                                                                 {"exclusiveMaximum", "number"},
                                                                 {"multipleOf", "number"}};
    std::vector<std::string> types;
    for (const auto& [word, type] : kWords) {
      if (schema.contains(word) && std::find(types.begin(), types.end(), type) == types.end()) {
        types.emplace_back(type);
      }
    }
    return types;
  }

  Status ByType(const Work& work) {
    const SchemaJson& schema = *work.schema;
    std::vector<std::string> types = TypesOf(schema);
    if (schema.contains("type")) {
      if (types.empty() && !(schema["type"].is_array() && schema["type"].empty())) {
        return Invalid("\"type\" must be a name or a list of names");
      }
    } else {
      types = ImpliedTypes(schema);
      if (types.empty()) {
        builder_.Call(work.from, shapes_.Any(), work.to);
        return Ok();
      }
    }
    for (const std::string& type : types) TM_RETURN_IF_ERROR(OneType(type, work));
    return Ok();
  }

  Status OneType(const std::string& type, const Work& work) {
    if (type == "object") return Object(work);
    if (type == "array") return Array(work);
    if (type == "string") return String(work);
    if (type == "number" || type == "integer") return Number(type == "integer", work);
    if (type == "boolean") {
      builder_.TextTo(work.from, "true", work.to);
      builder_.TextTo(work.from, "false", work.to);
    } else if (type == "null") {
      builder_.TextTo(work.from, "null", work.to);
    } else {
      return Invalid("\"type\" " + Dumped(type) + " is none of JSON's");
    }
    return Ok();
  }

  // A count in the schema; absent: nullopt.
  static Result<Count> CountIn(const SchemaJson& schema, const char* word) {
    if (!schema.contains(word)) return Count();
    const SchemaJson& value = schema[word];
    const bool whole = value.is_number() && value.get<double>() >= 0 &&
                       value.get<double>() == std::floor(value.get<double>()) &&
                       value.get<double>() <= 1e9;
    if (!whole) return Invalid("\"" + std::string(word) + "\" must be a count");
    return Count(static_cast<size_t>(value.get<double>()));
  }

  Status Number(bool integer, const Work& work) {
    const SchemaJson& schema = *work.schema;
    NumberUse use{.integer = integer};
    const auto bound = [&](const char* word, bool exclusive,
                           std::optional<NumberBound>& to) -> Status {
      if (!schema.contains(word)) return Ok();
      if (!schema[word].is_number()) {
        return Invalid("\"" + std::string(word) + "\" must be a number");
      }
      to = ReadBound(Dumped(schema[word]), exclusive);
      return Ok();
    };
    std::optional<NumberBound> least_above, most_below;
    TM_RETURN_IF_ERROR(bound("minimum", false, use.least));
    TM_RETURN_IF_ERROR(bound("maximum", false, use.most));
    TM_RETURN_IF_ERROR(bound("exclusiveMinimum", true, least_above));
    TM_RETURN_IF_ERROR(bound("exclusiveMaximum", true, most_below));
    if (least_above && (!use.least || schema["exclusiveMinimum"] >= schema["minimum"])) {
      use.least = least_above;
    }
    if (most_below && (!use.most || schema["exclusiveMaximum"] <= schema["maximum"])) {
      use.most = most_below;
    }
    if (schema.contains("multipleOf")) {
      if (schema["multipleOf"] != 1) {
        return Invalid("\"multipleOf\" other than 1 is not supported");
      }
      use.integer = true;
    }
    AddNumber(builder_, work.from, use, work.to);
    return Ok();
  }

  Status String(const Work& work) {
    const SchemaJson& schema = *work.schema;
    TM_ASSIGN_OR_RETURN(const Count least, CountIn(schema, "minLength"));
    TM_ASSIGN_OR_RETURN(const Count most, CountIn(schema, "maxLength"));
    const bool pattern = schema.contains("pattern"), format = schema.contains("format");
    const bool counted = most || least.value_or(0) > 0;
    if (pattern + format + counted > 1) {
      return Invalid("of \"pattern\", \"format\" and lengths only one may stand in a schema");
    }
    if (!pattern && !format && !counted) {
      builder_.Call(work.from, shapes_.AnyString(), work.to);
      return Ok();
    }
    const NetworkState begin = builder_.NewState(), end = builder_.NewState();
    builder_.Bytes(work.from, '"', '"', begin);
    builder_.Bytes(end, '"', '"', work.to);
    if (counted) {
      if (most && *most < least.value_or(0)) return Ok();
      Counted(begin, least.value_or(0), most, end);
      return Ok();
    }
    const SchemaJson& value = schema[pattern ? "pattern" : "format"];
    const std::string word = pattern ? "pattern" : "format";
    if (!value.is_string()) return Invalid("\"" + word + "\" must be a string");
    if (pattern) {
      return AddRegex(builder_, begin, value.get<std::string>(),
                      {.writing = Writing::kJson, .whole = false}, end)
          .WithContext("\"pattern\"");
    }
    const auto known = PatternOfFormat(value.get<std::string>());
    if (!known) {
      return Invalid("\"format\" " + Dumped(value) + " is not supported; there are " +
                     std::string(kFormatNames));
    }
    return AddRegex(builder_, begin, *known, {.writing = Writing::kJson, .whole = true}, end);
  }

  // So many characters of a string.
  void Counted(NetworkState from, size_t least, Count most, NetworkState to) {
    const size_t last = most ? *most : least;
    std::vector<NetworkState> chain{builder_.NewState()};
    builder_.Free(from, chain[0]);
    for (size_t i = 0; i < last && !builder_.full(); ++i) {
      chain.push_back(builder_.NewState());
      AddJsonCharacter(builder_, chain[i], chain[i + 1]);
    }
    if (builder_.full()) return;
    for (size_t i = least; i < chain.size(); ++i) builder_.Free(chain[i], to);
    if (!most) return AddJsonCharacter(builder_, chain[least], chain[least]);
    for (size_t i = 0; i < last; ++i) {
      const size_t first = i < least ? 0 : least, end = i < least ? least : last;
      builder_.Alike(chain[i], chain[first], end - i);
    }
  }

  Status Array(const Work& work) {
    const SchemaJson& schema = *work.schema;
    TM_ASSIGN_OR_RETURN(const Count least_given, CountIn(schema, "minItems"));
    TM_ASSIGN_OR_RETURN(const Count most_given, CountIn(schema, "maxItems"));
    const size_t least = least_given.value_or(0);
    if (schema.value("uniqueItems", false) && most_given.value_or(2) > 1) {
      return Invalid("\"uniqueItems\" is not supported");
    }
    std::vector<NetworkRule> first;
    // Earlier drafts: "items" is the list, "additionalItems" what follows.
    const bool old_form = schema.contains("items") && schema["items"].is_array();
    const char* list = old_form ? "items" : "prefixItems";
    const char* more = old_form ? "additionalItems" : "items";
    if (schema.contains(list)) {
      if (!schema[list].is_array()) return Invalid("\"prefixItems\" must be a list");
      for (size_t i = 0; i < schema[list].size(); ++i) {
        first.push_back(RuleOf(schema[list][i], work.path + "/" + list + "/" + std::to_string(i)));
      }
    }
    std::optional<NetworkRule> rest;
    if (schema.contains(more)) {
      if (schema[more] != false) rest = RuleOf(schema[more], work.path + "/" + more);
    } else if (first.empty() || least > first.size()) {
      rest = shapes_.Any();
    }
    if (schema.contains("unevaluatedItems") && schema["unevaluatedItems"] != false) {
      return Invalid("\"unevaluatedItems\" other than false is not supported");
    }
    if (most_given && *most_given < least) return Ok();
    shapes_.Items(work.from, first, rest, {least, most_given}, work.to);
    return Ok();
  }

  Status Object(const Work& work) {
    const SchemaJson& schema = *work.schema;
    std::vector<JsonProperty> properties;
    TM_RETURN_IF_ERROR(ReadProperties(work, properties));
    std::optional<NetworkRule> extra;
    if (schema.contains("additionalProperties")) {
      const SchemaJson& more = schema["additionalProperties"];
      if (more != false) extra = RuleOf(more, work.path + "/additionalProperties");
    } else if (!schema.contains("properties")) {
      extra = shapes_.Any();
    }
    if (schema.contains("unevaluatedProperties") && schema["unevaluatedProperties"] != false) {
      return Invalid("\"unevaluatedProperties\" other than false is not supported");
    }
    if (schema.contains("unevaluatedProperties") && extra &&
        !schema.contains("additionalProperties")) {
      extra = std::nullopt;
    }
    TM_ASSIGN_OR_RETURN(const Count least, CountIn(schema, "minProperties"));
    TM_ASSIGN_OR_RETURN(const Count most, CountIn(schema, "maxProperties"));
    const auto required = static_cast<size_t>(std::count_if(
        properties.begin(), properties.end(), [](const auto& p) { return p.required; }));
    const bool enough = least.value_or(0) <= required;
    const bool few = !most || (!extra && properties.size() <= *most);
    if (enough && few) {
      shapes_.Members(work.from, properties, extra, {}, work.to);
      return Ok();
    }
    if (!enough && extra) {
      return Invalid(
          "\"minProperties\" of more than the required ones is not supported where "
          "others may be added");
    }
    if (properties.size() > kCountedPropertiesMax || most.value_or(0) > kCountedPropertiesMax) {
      return Invalid("\"minProperties\" and \"maxProperties\" are supported for at most " +
                     std::to_string(kCountedPropertiesMax) + " properties");
    }
    shapes_.Members(work.from, properties, extra, {least, most}, work.to);
    return Ok();
  }

  Status ReadProperties(const Work& work, std::vector<JsonProperty>& properties) {
    const SchemaJson& schema = *work.schema;
    std::set<std::string> required, there;
    if (schema.contains("required")) {
      if (!schema["required"].is_array()) return Invalid("\"required\" must be a list");
      for (const SchemaJson& name : schema["required"]) {
        if (!name.is_string()) return Invalid("\"required\" must be a list of names");
        required.insert(name.get<std::string>());
      }
    }
    if (schema.contains("properties")) {
      if (!schema["properties"].is_object()) return Invalid("\"properties\" must be an object");
      for (const auto& [name, value] : schema["properties"].items()) {
        properties.push_back({Dumped(name), RuleOf(value, work.path + "/properties/" + name),
                              required.contains(name)});
        there.insert(name);
      }
    }
    static const SchemaJson kAnything = true;
    for (const std::string& name : required) {
      if (there.contains(name)) continue;
      const SchemaJson& value =
          schema.contains("additionalProperties") ? schema["additionalProperties"] : kAnything;
      properties.push_back({Dumped(name), RuleOf(value, work.path + "/required/" + name), true});
    }
    for (const JsonProperty& property : properties) {
      if (property.key.size() > kKeyBytesMax) {
        return Invalid("the name of a property is longer than " + std::to_string(kKeyBytesMax) +
                       " bytes");
      }
    }
    if (properties.size() > kPropertiesMax) {
      return Invalid("an object has more than " + std::to_string(kPropertiesMax) + " properties");
    }
    return Ok();
  }

  NetworkBuilder& builder_;
  JsonShapes shapes_;
  const SchemaJson& root_;
  std::deque<SchemaJson> made_;  // their places do not change
  std::unordered_map<const SchemaJson*, NetworkRule> rules_;
  std::deque<Work> work_;
  size_t written_ = 0;
};

}  // namespace

Status AddJsonSchema(NetworkBuilder& builder, NetworkState from,
                     const nlohmann::ordered_json& schema, NetworkState to) {
  return SchemaWriter(builder, schema).Write(from, to);
}

void AddJsonObject(NetworkBuilder& builder, NetworkState from, NetworkState to) {
  JsonShapes shapes(builder);
  builder.Call(from, shapes.AnyObject(), to);
}

}  // namespace tidemill
