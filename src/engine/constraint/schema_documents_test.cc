// Documents that a schema takes and those that it does not, by the meaning of its words.
#include <gtest/gtest.h>

#include "testing/constraint_kit.h"

namespace tidemill {
namespace {

using DocumentJson = nlohmann::ordered_json;

struct Documents {
  const char* schema;
  std::vector<const char*> valid, invalid;
};

class SchemaDocuments : public testing::Test {
 protected:
  std::shared_ptr<const Constraint> Made(const std::string& schema) {
    auto made = compiler_.Compile(
        {.kind = ConstraintPart::Kind::kSchema, .schema = DocumentJson::parse(schema)});
    EXPECT_TRUE(made.ok()) << schema << ": " << made.status().ToString();
    return made.ok() ? *made : nullptr;
  }
  void Expect(const std::vector<Documents>& all) {
    for (const Documents& one : all) {
      const auto made = Made(one.schema);
      if (!made) continue;
      for (const char* text : one.valid) {
        EXPECT_TRUE(TakesText(*made, text)) << one.schema << " takes " << text;
      }
      for (const char* text : one.invalid) {
        EXPECT_FALSE(TakesText(*made, text)) << one.schema << " does not take " << text;
      }
    }
  }

  const WordVocabulary vocabulary_ = WordVocabulary::ForJson();
  ConstraintCompiler compiler_{vocabulary_.tokens};
};

TEST_F(SchemaDocuments, SchemasThatHoldTogetherAreOne) {
  Expect({
      {R"({"allOf":[{"prefixItems":[{"minimum":3}]}],"items":{"minimum":5}})",
       {"[5, 5]", "[]"},
       {"[3, 5]", "[5, 4]"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},
           "additionalProperties":{"type":"string"}},{"properties":{"b":{"maxLength":2}}}]})",
       {R"({"a":1,"b":"xx"})", R"({"c":"xxx"})"},
       {R"({"b":"xxx"})", R"({"b":5})", R"({"c":1})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},
           "unevaluatedProperties":false},{"properties":{"b":{"type":"integer"}}}]})",
       {R"({"a":1})", "{}"},
       {R"({"b":1})", R"({"a":1,"b":1})"}},
      {R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer"}}},
           {"properties":{"b":{"type":"integer"}}}],"unevaluatedProperties":false})",
       {R"({"a":1,"b":1})"},
       {R"({"c":1})"}},
      {R"({"type":"array","unevaluatedItems":false})", {"[]"}, {"[1]"}},
      {R"({"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]},
           {"anyOf":[{"minimum":3},{"maxLength":2}]}]})",
       {"3", "\"ab\""},
       {"[]", "null"}},
      {R"({"allOf":[{"type":"integer","multipleOf":4},{"multipleOf":6}]})",
       {"12", "-24"},
       {"4", "6", "13"}},
      {R"({"allOf":[{"type":"string","pattern":"a"},{"pattern":"b"},{"pattern":"^.{2,4}$"}]})",
       {"\"ab\"", "\"xbxa\""},
       {"\"aa\"", "\"aaaab\"", "\"b\""}},
  });
}

TEST_F(SchemaDocuments, WhatRefersToItselfWithWordsBesideComesToAnEnd) {
  Expect({{R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{
              "v":{"type":"integer"},"c":{"$ref":"#/$defs/n","minProperties":1}},
              "additionalProperties":false}}})",
           {R"({"v":1,"c":{"v":1}})", R"({"c":{"c":{"v":1}}})"},
           {R"({"c":{}})", R"({"c":{"c":{}}})"}}});
}

TEST_F(SchemaDocuments, BranchesOfOneOfAreToldApart) {
  Expect(
      {{R"({"oneOf":[{"type":"object","required":["Circle"],"properties":{"Circle":{"type":"integer"}},
               "additionalProperties":false},{"type":"object","required":["Square"],
               "properties":{"Square":{"type":"integer"}},"additionalProperties":false},
               {"type":"string","enum":["Unit"]}]})",
        {R"({"Circle":1})", "\"Unit\""},
        {R"({"Circle":1,"Square":2})", "{}"}}});
  for (const char* schema :
       {R"({"oneOf":[{"const":{"a":1,"b":2}},{"const":{"b":2,"a":1}}]})",
        R"({"oneOf":[{"type":["object","null"],"properties":{"k":{"const":1}},"required":["k"]},
                     {"type":["object","null"],"properties":{"k":{"const":2}},"required":["k"]}]})",
        R"({"oneOf":[{"required":["x"],"minimum":5},
                     {"required":["y"],"properties":{"y":{}},"additionalProperties":false}]})"}) {
    const auto made = compiler_.Compile(
        {.kind = ConstraintPart::Kind::kSchema, .schema = DocumentJson::parse(schema)});
    ASSERT_FALSE(made.ok()) << schema;
    EXPECT_NE(made.status().message().find("oneOf"), std::string::npos);
  }
}

TEST_F(SchemaDocuments, CharactersAreCountedHoweverTheyAreWritten) {
  Expect({
      {R"({"type":"string"})",
       {R"("\ud83d\ude00")", R"("\uD83D\uDE00x")", R"("\u0000")"},
       {R"("\ud83d")", R"("\ude00")", R"("\ud83d\u0041")", "\"\n\""}},
      {R"({"type":"string","maxLength":1})",
       {R"("\ud83d\ude00")", "\"😀\"", "\"\""},
       {R"("\ud83d\ude00a")", "\"ab\""}},
      {R"({"type":"string","minLength":2})", {"\"😀😀\""}, {R"("\ud83d\ude00")", "\"é\""}},
      {R"({"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":4})",
       {"\"ab\"", "\"abcd\""},
       {"\"a\"", "\"abcde\"", "\"aB\""}},
      {R"({"type":"string","pattern":"b","maxLength":3})", {"\"abc\""}, {"\"aac\"", "\"abcd\""}},
      {R"({"type":"string","format":"date","minLength":10})",
       {"\"2024-02-29\"", "\"2000-02-29\""},
       {"\"2023-02-29\"", "\"1900-02-29\""}},
      {R"({"type":"string","maxLength":1000000000})", {"\"abc\""}, {"abc"}},
      {R"({"type":"string","pattern":"^\\S$"})", {"\"a\""}, {"\"\u00a0\"", "\" \""}},
      {R"({"type":"string","pattern":"^[^\\s]$"})", {"\"a\""}, {"\"\u2003\""}},
      {R"({"type":"string","pattern":"^[\\s\\S]$"})", {"\"\u00a0\"", "\"a\""}, {"\"\""}},
      {R"({"type":"string","pattern":"^.$"})", {"\"a\""}, {"\"\u2028\"", R"("\n")"}},
  });
}

TEST_F(SchemaDocuments, MembersAreCountedAndNoNameComesTwice) {
  Expect({
      {R"({"type":"object","minProperties":1})", {R"({"a":1})"}, {"{}"}},
      {R"({"type":"object","properties":{"a":{},"b":{}},"minProperties":2,"maxProperties":3,
           "additionalProperties":{"type":"integer"}})",
       {R"({"a":1,"x":1})", R"({"a":1,"x":1,"y":1})", R"({"a": 1, "b": 2})"},
       {R"({"x":1,"y":1})", R"({"a":1})", R"({"a":1,"b":1,"x":1,"y":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},
           "additionalProperties":{"type":"string"}})",
       {R"({"a":1,"b":"x"})"},
       {R"({"a":1,"a":"x"})", R"({"a":"x"})", R"({"b":"x",})", R"({,"a":1})", R"({"\u0061":"x"})"}},
      {R"({"const":{"a":[1,{"b":null}]}})",
       {R"({"a":[1,{"b":null}]})", R"({"a": [1, {"b": null}]})"},
       {R"({"a":[1]})"}},
  });
}

TEST_F(SchemaDocuments, MultiplesAreExact) {
  for (const auto& [schema, of] : {std::pair(R"({"type":"integer","multipleOf":7})", 70),
                                   std::pair(R"({"type":"number","multipleOf":2.5})", 25),
                                   std::pair(R"({"type":"integer","multipleOf":2.5})", 50),
                                   std::pair(R"({"type":"number","multipleOf":0.3})", 3),
                                   std::pair(R"({"type":"integer","multipleOf":97,
                                                 "minimum":-300})",
                                             970)}) {
    const auto made = Made(schema);
    ASSERT_NE(made, nullptr);
    const bool whole = std::string_view(schema).find("integer") != std::string_view::npos;
    for (int tenths = -2000; tenths <= 2000; ++tenths) {
      if (tenths == 0 || (whole && tenths % 10 != 0)) continue;
      std::string text = (tenths < 0 ? "-" : "") + std::to_string(std::abs(tenths) / 10);
      if (tenths % 10 != 0) text += "." + std::to_string(std::abs(tenths) % 10);
      EXPECT_EQ(TakesText(*made, text), tenths % of == 0) << schema << " " << text;
    }
  }
}

// Between bounds that no double tells from the digits behind them, nothing is drawn that a reader
// rounds onto the bound.
TEST_F(SchemaDocuments, NoReaderRoundsANumberOverItsBound) {
  Random random(12);
  for (const auto& [low, high] :
       std::vector<std::pair<double, double>>{{999999, 1000000},
                                              {-1000000, -999999},
                                              {0.1, 0.30000000000000004},
                                              {99999999999999, 100000000000000},
                                              {0.999999999999, 1},
                                              {1e-20, 2e-20},
                                              {0, 1e15}}) {
    const DocumentJson schema = {
        {"type", "number"}, {"exclusiveMinimum", low}, {"exclusiveMaximum", high}};
    const auto made = Made(schema.dump());
    ASSERT_NE(made, nullptr);
    for (int i = 0; i < 200; ++i) {
      const DrawnText drawn = DrawText(vocabulary_, made, random, 100);
      if (!drawn.ended) continue;
      const double value = std::strtod(drawn.text.c_str(), nullptr);
      EXPECT_TRUE(value > low && value < high) << drawn.text << " of " << schema.dump();
    }
  }
}

}  // namespace
}  // namespace tidemill
