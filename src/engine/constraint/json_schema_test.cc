#include "engine/constraint/json_schema_network.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>

#include "testing/constraint_kit.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;
using Check = std::function<bool(const Json&)>;

ConstraintPart SchemaPart(const std::string& schema) {
  return {.kind = ConstraintPart::Kind::kSchema, .schema = Json::parse(schema)};
}

struct Family {
  const char* schema;
  Check valid;  // written out by hand, from the meaning of the schema
};

std::vector<Family> Families() {
  const auto text = [](const Json& v, size_t least, size_t most) {
    if (!v.is_string()) return false;
    const std::string s = v.get<std::string>();
    const auto n = static_cast<size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    return n >= least && n <= most;
  };
  const auto within = [](const Json& v, double low, double high) {
    return v.is_number() && v.get<double>() >= low && v.get<double>() <= high;
  };
  const auto matches = [](const Json& v, const char* pattern) {
    return v.is_string() && std::regex_search(v.get<std::string>(), std::regex(pattern));
  };
  return {
      {R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
           "required": ["name", "age"], "additionalProperties": false})",
       [](const Json& v) {
         return v.is_object() && v.size() == 2 && v["name"].is_string() &&
                v["age"].is_number_integer();
       }},
      {R"({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"},
           "c": {"const": "x\"y"}}})",
       [](const Json& v) {
         for (const auto& [key, value] : v.items()) {
           if (!(key == "a"   ? value.is_boolean()
                 : key == "b" ? value.is_null()
                              : key == "c" && value == "x\"y")) {
             return false;
           }
         }
         return v.is_object();
       }},
      {R"({"type": "integer", "minimum": -17, "maximum": 205})",
       [=](const Json& v) { return v.is_number_integer() && within(v, -17, 205); }},
      {R"({"type": "integer", "exclusiveMinimum": 99, "exclusiveMaximum": 102})",
       [=](const Json& v) { return v == 100 || v == 101; }},
      {R"({"type": "number", "minimum": 0.25, "exclusiveMaximum": 1.5})",
       [=](const Json& v) { return within(v, 0.25, 1.5) && v != 1.5; }},
      {R"({"type": "number", "minimum": -2.5, "maximum": -0.001})",
       [=](const Json& v) { return within(v, -2.5, -0.001); }},
      {R"({"type": "number", "exclusiveMinimum": 0})",
       [=](const Json& v) { return v.is_number() && v.get<double>() > 0; }},
      {R"({"type": "string", "minLength": 2, "maxLength": 4})",
       [=](const Json& v) { return text(v, 2, 4); }},
      {R"({"type": "string", "minLength": 3})", [=](const Json& v) { return text(v, 3, 1e9); }},
      {R"({"type": "string", "pattern": "^[A-Z]{2}-\\d{1,3}$"})",
       [=](const Json& v) { return matches(v, "^[A-Z]{2}-[0-9]{1,3}$"); }},
      {R"({"type": "string", "pattern": "[b-y]{2}"})",
       [=](const Json& v) { return matches(v, "[b-y][b-y]"); }},
      {R"({"type": "string", "pattern": "^(a|b\"c)+$"})",
       [=](const Json& v) { return matches(v, "^(a|b\"c)+$"); }},
      {R"({"type": "string", "format": "date"})",
       [=](const Json& v) { return matches(v, "^[0-9]{4}-[01][0-9]-[0-3][0-9]$"); }},
      {R"({"type": "string", "format": "uuid"})",
       [=](const Json& v) { return matches(v, "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"); }},
      {R"({"enum": ["red", 7, null, {"k": [1, 2]}, true]})",
       [](const Json& v) {
         return v == "red" || v == 7 || v.is_null() || v == Json{{"k", {1, 2}}} || v == true;
       }},
      {R"({"type": "string", "enum": ["red", 7, "blue"]})",
       [](const Json& v) { return v == "red" || v == "blue"; }},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3})",
       [](const Json& v) {
         return v.is_array() && v.size() >= 2 && v.size() <= 3 &&
                std::all_of(v.begin(), v.end(), [](const Json& b) { return b.is_boolean(); });
       }},
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
           "items": {"type": "null"}, "minItems": 2})",
       [](const Json& v) {
         return v.is_array() && v.size() >= 2 && v[0].is_number_integer() && v[1].is_string() &&
                std::all_of(v.begin() + 2, v.end(), [](const Json& n) { return n.is_null(); });
       }},
      {R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]})",
       [](const Json& v) {
         return v.is_number_integer() ||
                (v.is_array() && std::all_of(v.begin(), v.end(),
                                             [](const Json& i) { return i.is_number_integer(); }));
       }},
      {R"({"oneOf": [
             {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
              "required": ["kind", "lives"]},
             {"type": "object", "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}},
              "required": ["kind", "name"]}]})",
       [](const Json& v) {
         return v.is_object() && (v["kind"] == "cat" ? v["lives"].is_number_integer()
                                                     : v["kind"] == "dog" && v["name"].is_string());
       }},
      {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                     {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]})",
       [](const Json& v) {
         return v.is_object() && v["a"].is_number_integer() && v["b"].is_number_integer();
       }},
      {R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
           "value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
           "required": ["value", "next"], "additionalProperties": false}}})",
       [](const Json& v) {
         const Json* at = &v;
         while (at->is_object() && at->size() == 2 && (*at)["value"].is_number_integer()) {
           at = &(*at)["next"];
         }
         return v.is_object() && at->is_null();
       }},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       [](const Json& v) {
         return v.is_object() && std::all_of(v.begin(), v.end(),
                                             [](const Json& i) { return i.is_number_integer(); });
       }},
      {R"({"type": "object", "properties": {"ab": {"type": "string"}, "ac": {"type": "string"}},
           "required": ["ab"], "additionalProperties": {"type": "null"}})",
       [](const Json& v) {
         for (const auto& [key, value] : v.items()) {
           if (key == "ab" || key == "ac" ? !value.is_string() : !value.is_null()) return false;
         }
         return v.is_object() && v.contains("ab");
       }},
      {R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}, "d": {}},
           "minProperties": 2, "maxProperties": 3})",
       [](const Json& v) { return v.is_object() && v.size() >= 2 && v.size() <= 3; }},
      {R"({"type": ["string", "null"]})",
       [](const Json& v) { return v.is_string() || v.is_null(); }},
      {R"({"type": "object", "title": "T", "description": "D", "default": {}, "x-note": 1,
           "properties": {"tags": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}},
           "required": ["tags"]})",
       [](const Json& v) {
         return v.is_object() && std::all_of(v["tags"].begin(), v["tags"].end(),
                                             [](const Json& t) { return t == "x" || t == "y"; });
       }},
      {"true", [](const Json&) { return true; }},
      {"{}", [](const Json&) { return true; }},
  };
}

TEST(JsonSchema, EveryDocumentThatIsDrawnSatisfiesItsSchema) {
  const WordVocabulary vocabulary = WordVocabulary::ForJson();
  ConstraintCompiler compiler(vocabulary.tokens);
  for (const Family& family : Families()) {
    const auto constraint = compiler.Compile(SchemaPart(family.schema));
    ASSERT_TRUE(constraint.ok()) << family.schema << ": " << constraint.status().ToString();
    Random random(11);
    int ended = 0;
    for (int i = 0; i < 1000; ++i) {
      const DrawnText drawn = DrawText(vocabulary, *constraint, random, 300);
      if (!drawn.ended) continue;
      ++ended;
      const Json value = Json::parse(drawn.text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << family.schema << "\n" << drawn.text;
      ASSERT_TRUE(family.valid(value)) << family.schema << "\n" << drawn.text;
    }
    EXPECT_GT(ended, 500) << family.schema;
  }
}

// What a state offers is what its bytes lead on from, also where neighbours share their masks.
TEST(JsonSchema, AMaskHasExactlyTheTokensThatCanBeTaken) {
  const WordVocabulary vocabulary = WordVocabulary::ForJson();
  ConstraintCompiler compiler(vocabulary.tokens);
  Random random(19);
  for (const char* schema :
       {R"({"type": "string", "minLength": 4, "maxLength": 9})",
        R"({"type": "string", "maxLength": 40})",
        R"({"type": "array", "items": {"type": "string", "minLength": 7}, "minItems": 1})",
        R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 6},
           "value": {"type": "number"}}, "required": ["value"]})",
        R"({"anyOf": [{"type": "string", "pattern": "^h.*o$"}, {"type": "object"}]})"}) {
    const auto constraint = compiler.Compile(SchemaPart(schema));
    ASSERT_TRUE(constraint.ok()) << constraint.status().ToString();
    ConstraintAutomaton& automaton = *(*constraint)->automaton;
    for (int text = 0; text < 15; ++text) {
      auto state = automaton.start();
      for (int step = 0; step < 40; ++step) {
        const auto mask = automaton.Mask(state);
        std::vector<TokenId> ids;
        for (TokenId id = 0; id < vocabulary.end; ++id) {
          const auto next = automaton.Follow(state, vocabulary.words[static_cast<size_t>(id)]);
          ASSERT_EQ(mask->Allows(id), next != ConstraintAutomaton::kDead) << schema << " " << id;
          if (mask->Allows(id)) ids.push_back(id);
        }
        EXPECT_EQ(mask->Allows(vocabulary.end), automaton.Accepts(state));
        if (ids.empty()) break;
        state = automaton.Follow(
            state, vocabulary.words[static_cast<size_t>(ids[random.Below(ids.size())])]);
      }
    }
  }
}

// The whole range of a bound, and nothing beside it.
TEST(JsonSchema, BoundsOfIntegersAreExact) {
  const WordVocabulary vocabulary = WordVocabulary::ForJson();
  ConstraintCompiler compiler(vocabulary.tokens);
  Random random(4);
  for (int round = 0; round < 60; ++round) {
    const int a = static_cast<int>(random.Below(2400)) - 1200;
    const int b = a + static_cast<int>(random.Below(300));
    const auto constraint =
        compiler.Compile(SchemaPart(R"({"type":"integer","minimum":)" + std::to_string(a) +
                                    R"(,"maximum":)" + std::to_string(b) + "}"));
    ASSERT_TRUE(constraint.ok());
    const auto takes = [&](const std::string& text) {
      const auto end = (*constraint)->automaton->Follow((*constraint)->automaton->start(), text);
      return (*constraint)->automaton->Accepts(end);
    };
    for (int i = -1300; i <= 1600; ++i) {
      ASSERT_EQ(takes(std::to_string(i)), i >= a && i <= b) << i << " in " << a << " .. " << b;
    }
    EXPECT_FALSE(takes("00")) << "no zeros in front";
  }
}

TEST(JsonSchema, BoundsOfNumbersAreExact) {
  const WordVocabulary vocabulary = WordVocabulary::ForJson();
  ConstraintCompiler compiler(vocabulary.tokens);
  Random random(8);
  for (int round = 0; round < 80; ++round) {
    const double a = (static_cast<double>(random.Below(4000)) - 2000) / 100;
    const double b = a + static_cast<double>(random.Below(1000)) / 100;
    const bool open = random.Below(2) == 0;
    const Json schema = {{"type", "number"},
                         {open ? "exclusiveMinimum" : "minimum", a},
                         {open ? "exclusiveMaximum" : "maximum", b}};
    const auto constraint =
        compiler.Compile({.kind = ConstraintPart::Kind::kSchema, .schema = schema});
    if (open && a == b) {
      EXPECT_FALSE(constraint.ok());
      continue;
    }
    ASSERT_TRUE(constraint.ok()) << schema.dump();
    for (int i = -4000; i <= 4000; i += 1 + static_cast<int>(random.Below(7))) {
      char text[32];
      std::snprintf(text, sizeof text, "%.2f", i / 100.0);
      const double x = std::strtod(text, nullptr);
      if (text[0] == '-' && x == 0) continue;
      const auto end = (*constraint)->automaton->Follow((*constraint)->automaton->start(), text);
      const bool valid = open ? x > a && x < b : x >= a && x <= b;
      ASSERT_EQ((*constraint)->automaton->Accepts(end), valid) << text << " by " << schema.dump();
    }
  }
}

TEST(JsonSchema, WhatIsNotSupportedIsRefusedByName) {
  NetworkBuilder::ByteSet all;
  all.fill(true);
  const std::pair<const char*, const char*> kRefused[] = {
      {R"({"not": {"type": "string"}})", "\"not\""},
      {R"({"type": "object", "patternProperties": {"^a": {}}})", "\"patternProperties\""},
      {R"({"if": {}, "then": {}})", "\"if\""},
      {R"({"type": "array", "uniqueItems": true})", "\"uniqueItems\""},
      {R"({"type": "array", "contains": {}})", "\"contains\""},
      {R"({"type": "integer", "multipleOf": 0})", "\"multipleOf\""},
      {R"({"type": "integer", "multipleOf": 1234567890123})", "\"multipleOf\""},
      {R"({"type": "string", "format": 5})", "\"format\""},
      {R"({"properties": {"a": {"$id": "urn:x"}}})", "\"$id\""},
      {R"({"type": "string", "pattern": "(?=a)b"})", "look-ahead"},
      {R"({"type": "string", "pattern": "^a{5}$", "maxLength": 3})", "nothing can satisfy it"},
      {R"({"$ref": "https://example.com/schema"})", "https://example.com/schema"},
      {R"({"$ref": "#/$defs/missing"})", "names nothing"},
      {R"({"$ref": "#"})", "nothing can satisfy it"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "\"oneOf\""},
      {R"({"type": "thing"})", "\"thing\""},
      {R"({"type": 5})", "\"type\""},
      {R"({"enum": []})", "nothing can satisfy it"},
      {R"({"type": "object", "properties": {"a": {"properties": {"b": {"not": {}}}}}})",
       "properties/a/properties/b"},
      {"false", "nothing can satisfy it"},
      {"7", "an object or a boolean"},
  };
  for (const auto& [schema, word] : kRefused) {
    const auto made = CompileConstraint(SchemaPart(schema), {}, all);
    ASSERT_FALSE(made.ok()) << schema;
    EXPECT_NE(made.status().message().find(word), std::string::npos)
        << schema << ": " << made.status().message();
  }
}

TEST(JsonSchema, HostileSchemasAreRefusedInBoundedTime) {
  NetworkBuilder::ByteSet all;
  all.fill(true);
  // References that double at each level, in allOf and in lists.
  std::string defs;
  for (int i = 0; i < 40; ++i) {
    const std::string next = R"({"$ref":"#/$defs/d)" + std::to_string(i + 1) + R"("})";
    defs += (i == 0 ? "" : ",") + (R"("d)" + std::to_string(i) + R"(":{"allOf":[)") + next + "," +
            next + "]}";
  }
  defs += R"(,"d40":{"type":"integer"})";
  (void)CompileConstraint(SchemaPart(R"({"$ref":"#/$defs/d0","$defs":{)" + defs + "}}"), {}, all);
  const char* kLarge[] = {
      R"({"type":"array","items":{"type":"integer"},"minItems":100000000})",
      R"({"type":"string","maxLength":1000000000})",
      R"({"type":"array","minItems":1000,"maxItems":1000,"items":{"type":"array","minItems":1000,"maxItems":1000}})",
  };
  for (const char* schema : kLarge) {
    const auto made = CompileConstraint(SchemaPart(schema), {}, all);
    if (made.ok()) {
      EXPECT_LE(made->states.size(), ConstraintLimits().states);
    }
  }
  std::string key(5000, 'k');
  EXPECT_FALSE(
      CompileConstraint(
          SchemaPart(R"({"properties":{")" + key + R"(":{}},"additionalProperties":{}})"), {}, all)
          .ok());
}

}  // namespace
}  // namespace tidemill
