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

#include "engine/constraint/both_networks.h"
#include "engine/constraint/character_set.h"
#include "engine/constraint/json_shapes.h"
#include "engine/constraint/number_network.h"
#include "engine/constraint/regex_network.h"
#include "engine/constraint/schema_merge.h"
#include "engine/constraint/schema_resolver.h"
#include "engine/constraint/string_formats.h"

namespace tidemill {
namespace {

constexpr size_t kPropertiesMax = 1000;
constexpr size_t kCountedPropertiesMax = 100;
constexpr size_t kCountedCharactersMax = 10'000;  // where more are allowed
constexpr size_t kKeyBytesMax = 1000;
constexpr size_t kSchemasMax = 20'000;
constexpr size_t kOneOfMax = 500;
constexpr size_t kSpacedValuesMax = 1000;  // in constants; larger ones are written without blanks

std::string Dumped(const SchemaJson& value) {
  return value.dump(-1, ' ', false, SchemaJson::error_handler_t::replace);
}

class SchemaWriter {
 public:
  SchemaWriter(NetworkBuilder& builder, const SchemaJson& root)
      : builder_(builder), shapes_(builder), root_(root), resolver_(root) {}

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

  // The same text has the same rule, so that what refers to itself comes to an end.
  NetworkRule RuleOfMade(SchemaJson schema, const std::string& path) {
    const auto [it, added] = made_.try_emplace(Dumped(schema));
    if (added) it->second = std::move(schema);
    return RuleOf(it->second, path);
  }

  Status Value(const Work& work) {
    const SchemaJson& schema = *work.schema;
    if (schema.is_boolean()) {
      if (schema == true) builder_.Call(work.from, shapes_.Any(), work.to);
      return Ok();
    }
    if (!schema.is_object()) return Invalid("a schema is an object or a boolean");
    TM_RETURN_IF_ERROR(resolver_.CheckWords(schema));
    if (schema.contains("$ref")) return Reference(work);
    if (schema.contains("allOf")) return AllOf(work);
    if (schema.contains("anyOf")) return AnyOf(work);
    if (schema.contains("oneOf")) return OneOf(work);
    if (schema.contains("const") || schema.contains("enum")) return Constants(work);
    return ByType(work);
  }

  Status Reference(const Work& work) {
    const SchemaJson& schema = *work.schema;
    if (!schema["$ref"].is_string()) return Invalid("\"$ref\" must be a string");
    const std::string name = schema["$ref"].get<std::string>();
    TM_ASSIGN_OR_RETURN(const SchemaJson* target, resolver_.Find(name));
    if (SchemaResolver::Beside(schema, "$ref").empty()) {
      builder_.Call(work.from, RuleOf(*target, name), work.to);
      return Ok();
    }
    return AllOf(work);
  }

  Status AllOf(const Work& work) {
    TM_ASSIGN_OR_RETURN(SchemaJson merged, resolver_.Flat(*work.schema, false));
    builder_.Call(work.from, RuleOfMade(std::move(merged), work.path), work.to);
    return Ok();
  }

  static Result<const SchemaJson*> Branches(const SchemaJson& schema, const std::string& word) {
    const SchemaJson& branches = schema[word];
    if (branches.is_array() && !branches.empty()) return &branches;
    return Invalid("\"" + word + "\" must be a list with something in it");
  }

  Status AnyOf(const Work& work) {
    TM_ASSIGN_OR_RETURN(const SchemaJson* branches, Branches(*work.schema, "anyOf"));
    const SchemaJson rest = SchemaResolver::Beside(*work.schema, "anyOf");
    for (size_t i = 0; i < branches->size(); ++i) {
      const std::string path = work.path + "/anyOf/" + std::to_string(i);
      if (rest.empty()) {
        builder_.Call(work.from, RuleOf((*branches)[i], path), work.to);
        continue;
      }
      TM_ASSIGN_OR_RETURN(const SchemaJson branch, resolver_.Flat((*branches)[i], true));
      TM_ASSIGN_OR_RETURN(SchemaJson merged, resolver_.Merge(rest, branch));
      builder_.Call(work.from, RuleOfMade(std::move(merged), path), work.to);
    }
    return Ok();
  }

  Status OneOf(const Work& work) {
    TM_ASSIGN_OR_RETURN(const SchemaJson* branches, Branches(*work.schema, "oneOf"));
    if (branches->size() > kOneOfMax) {
      return Invalid("\"oneOf\" of more than " + std::to_string(kOneOfMax) +
                     " is not supported: use \"anyOf\" or \"enum\"");
    }
    const SchemaJson rest = SchemaResolver::Beside(*work.schema, "oneOf");
    std::vector<SchemaJson> flat;
    for (size_t i = 0; i < branches->size(); ++i) {
      const std::string path = work.path + "/oneOf/" + std::to_string(i);
      TM_ASSIGN_OR_RETURN(const SchemaJson branch, resolver_.Flat((*branches)[i], true));
      TM_ASSIGN_OR_RETURN(SchemaJson merged, resolver_.Merge(rest, branch));
      flat.push_back(merged);
      const NetworkRule rule =
          rest.empty() ? RuleOf((*branches)[i], path) : RuleOfMade(std::move(merged), path);
      builder_.Call(work.from, rule, work.to);
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
      const bool fits = !schema.contains("enum") || HoldsValue(values, schema["const"]);
      values = fits ? SchemaJson::array({schema["const"]}) : SchemaJson::array();
    }
    const bool spaced = ValuesIn(values) <= kSpacedValuesMax;
    std::vector<std::string> texts;
    for (const SchemaJson& value : values) {
      TM_ASSIGN_OR_RETURN(const bool fits, FitsSchema(value, schema));
      if (!fits) continue;
      if (spaced && value.is_structured()) {
        Structured(value, work);
      } else {
        texts.push_back(Dumped(value));
      }
    }
    AddTexts(builder_, work.from, std::move(texts), work.to);
    return Ok();
  }

  // A constant list or object, with white space as in others.
  void Structured(const SchemaJson& value, const Work& work) {
    const auto rule = [&](const SchemaJson& inner) {
      return RuleOfMade(SchemaJson{{"const", inner}}, work.path);
    };
    if (value.is_array()) {
      std::vector<NetworkRule> items;
      for (const SchemaJson& item : value) items.push_back(rule(item));
      const size_t count = items.size();
      return shapes_.Items(work.from, items, std::nullopt, {.least = count, .most = count},
                           work.to);
    }
    std::vector<JsonProperty> members;
    for (const auto& [name, inner] : value.items()) {
      members.push_back({Dumped(name), rule(inner), true});
    }
    shapes_.Members(work.from, members, std::nullopt, {}, work.to);
  }

  // Of a schema without types those that its words are about.
  static std::vector<std::string> ImpliedTypes(const SchemaJson& schema) {
    static const std::pair<const char*, const char*> kWords[] = {
        {"properties", "object"},
        {"required", "object"},
        {"additionalProperties", "object"},
        {"unevaluatedProperties", "object"},
        {"minProperties", "object"},
        {"maxProperties", "object"},
        {"items", "array"},
        {"prefixItems", "array"},
        {"minItems", "array"},
        {"maxItems", "array"},
        {"additionalItems", "array"},
        {"unevaluatedItems", "array"},
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
      if (!schema["multipleOf"].is_number()) return Invalid("\"multipleOf\" must be a number");
      use.multiple = ReadBound(Dumped(schema["multipleOf"]), false);
    }
    return AddNumber(builder_, work.from, use, work.to);
  }

  Status String(const Work& work) {
    const SchemaJson& schema = *work.schema;
    TM_ASSIGN_OR_RETURN(const Count least, CountIn(schema, "minLength"));
    TM_ASSIGN_OR_RETURN(Count most, CountIn(schema, "maxLength"));
    if (most) most = std::min(*most, std::max(least.value_or(0), kCountedCharactersMax));
    const bool counted = most || least.value_or(0) > 0;
    if (most && *most < least.value_or(0)) return Ok();
    TM_ASSIGN_OR_RETURN(const std::vector<StringForm> forms, FormsOf(schema));
    if (forms.empty()) {
      const NetworkRule rule =
          counted ? shapes_.CountedString(least.value_or(0), most) : shapes_.AnyString();
      builder_.Call(work.from, rule, work.to);
      return Ok();
    }
    const NetworkState begin = builder_.NewState(), end = builder_.NewState();
    builder_.Bytes(work.from, '"', '"', begin);
    builder_.Bytes(end, '"', '"', work.to);
    if (forms.size() == 1 && !counted) return AddForm(builder_, forms[0], begin, end);
    return Together(
        forms, counted ? std::optional(CharacterBounds{least.value_or(0), most}) : std::nullopt,
        begin, end);
  }

  // A pattern of the schema, or of one of our formats.
  struct StringForm {
    std::string pattern;
    bool whole = false;
  };

  static Result<std::vector<StringForm>> FormsOf(const SchemaJson& schema) {
    std::vector<StringForm> forms;
    if (schema.contains("pattern")) {
      const SchemaJson& pattern = schema["pattern"];
      for (const SchemaJson& one : pattern.is_array() ? pattern : SchemaJson::array({pattern})) {
        if (!one.is_string()) return Invalid("\"pattern\" must be a string");
        forms.push_back({.pattern = one.get<std::string>()});
      }
    }
    if (schema.contains("format")) {
      if (!schema["format"].is_string()) return Invalid("\"format\" must be a string");
      const auto known = PatternOfFormat(schema["format"].get<std::string>());
      if (known) forms.push_back({.pattern = std::string(*known), .whole = true});
    }
    return forms;
  }

  static Status AddForm(NetworkBuilder& builder, const StringForm& form, NetworkState from,
                        NetworkState to) {
    return AddRegex(builder, from, form.pattern, {.writing = Writing::kJson, .whole = form.whole},
                    to)
        .WithContext("\"pattern\"");
  }

  // What satisfies all of the forms and has so many characters.
  Status Together(const std::vector<StringForm>& forms, const std::optional<CharacterBounds>& count,
                  NetworkState from, NetworkState to) {
    std::vector<ByteNetwork> networks;
    const auto alone = [&](const auto& add) -> Status {
      NetworkBuilder builder(builder_.limits(), builder_.writable());
      const NetworkRule root = builder.NewRule();
      TM_RETURN_IF_ERROR(add(builder, builder.StartOf(root), builder.EndOf(root)));
      TM_ASSIGN_OR_RETURN(ByteNetwork made, builder.Finish(root));
      networks.push_back(std::move(made));
      return Ok();
    };
    for (const StringForm& form : forms) {
      TM_RETURN_IF_ERROR(alone([&](NetworkBuilder& builder, NetworkState a, NetworkState b) {
        return AddForm(builder, form, a, b);
      }));
    }
    if (count) {
      TM_RETURN_IF_ERROR(alone([&](NetworkBuilder& builder, NetworkState a, NetworkState b) {
        AddJsonCharacters(builder, a, *count, b);
        return Ok();
      }));
    }
    while (networks.size() > 2) {
      const ByteNetwork a = std::move(networks[0]), b = std::move(networks[1]);
      networks.erase(networks.begin(), networks.begin() + 2);
      TM_RETURN_IF_ERROR(alone([&](NetworkBuilder& builder, NetworkState begin, NetworkState end) {
        AddBoth(builder, begin, a, b, end);
        return Ok();
      }));
    }
    AddBoth(builder_, from, networks[0], networks[1], to);
    return Ok();
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
    TM_ASSIGN_OR_RETURN(const bool closed, Closes(schema, "unevaluatedItems"));
    if (schema.contains(more)) {
      if (schema[more] != false) rest = RuleOf(schema[more], work.path + "/" + more);
    } else if (!closed && (first.empty() || least > first.size())) {
      rest = shapes_.Any();
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
    TM_ASSIGN_OR_RETURN(const bool closed, Closes(schema, "unevaluatedProperties"));
    if (closed && !schema.contains("additionalProperties")) extra = std::nullopt;
    TM_ASSIGN_OR_RETURN(const Count least, CountIn(schema, "minProperties"));
    TM_ASSIGN_OR_RETURN(Count most, CountIn(schema, "maxProperties"));
    const auto required = static_cast<size_t>(std::count_if(
        properties.begin(), properties.end(), [](const auto& p) { return p.required; }));
    const bool enough = least.value_or(0) <= required;
    if (most && !extra && properties.size() <= *most) most = std::nullopt;
    if (!enough && extra && *least > properties.size() + 1) {
      return Invalid(
          "\"minProperties\" of more than one above the properties that are named is not "
          "supported");
    }
    if (most && least.value_or(0) > *most) return Ok();
    if (most && required > *most) return Ok();
    if (most && extra) most = std::min(*most, std::max(properties.size(), kCountedPropertiesMax));
    if ((!enough || most) && properties.size() > kCountedPropertiesMax) {
      return Invalid("\"minProperties\" and \"maxProperties\" are supported for at most " +
                     std::to_string(kCountedPropertiesMax) + " properties");
    }
    if (!enough && !extra && *least > properties.size()) return Ok();
    shapes_.Members(work.from, properties, extra,
                    {.least = enough ? std::nullopt : least, .most = most}, work.to);
    return Ok();
  }

  // Of "unevaluated..": whether nothing else may stand there.
  static Result<bool> Closes(const SchemaJson& schema, const char* word) {
    if (!schema.contains(word) || schema[word] == true) return false;
    if (schema[word] == false) return true;
    return Invalid("\"" + std::string(word) + "\" other than true and false is not supported");
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
  SchemaResolver resolver_;
  std::map<std::string, SchemaJson> made_;  // by their text; their places do not change
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
