// Schemas, patterns and grammars made to take long, to nest deep or to crash: each is compiled
// within its bounds, or refused by name.
#include <gtest/gtest.h>

#include "testing/constraint_kit.h"

namespace tidemill {
namespace {

using Kind = ConstraintPart::Kind;
using HostileJson = nlohmann::ordered_json;

std::string Repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

class HostileConstraint : public testing::Test {
 protected:
  // The reason; empty: it compiled.
  std::string RefusalOf(const ConstraintPart& part) {
    const auto made = compiler_.Compile(part);
    return made.ok() ? "" : made.status().message();
  }
  std::string OfSchema(const HostileJson& schema) {
    return RefusalOf({.kind = Kind::kSchema, .schema = schema});
  }
  std::string OfRegex(const std::string& text) {
    return RefusalOf({.kind = Kind::kRegex, .text = text});
  }
  std::string OfGrammar(const std::string& text) {
    return RefusalOf({.kind = Kind::kGrammar, .text = text});
  }

  const WordVocabulary vocabulary_ = WordVocabulary::ForJson();
  ConstraintCompiler compiler_{vocabulary_.tokens};
};

TEST_F(HostileConstraint, ReferencesThatDoubleAreBounded) {
  HostileJson defs;
  for (int i = 0; i < 30; ++i) {
    const HostileJson next = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    defs["d" + std::to_string(i)] = {{"allOf", {next, next}}};
  }
  defs["d30"] = {{"type", "integer"}};
  EXPECT_NE(OfSchema({{"$ref", "#/$defs/d0"}, {"$defs", defs}}).find("too large"),
            std::string::npos);
  HostileJson many = HostileJson::array();
  for (int i = 0; i < 6; ++i) {
    HostileJson any;
    for (int j = 0; j < 40; ++j) any["anyOf"].push_back({{"minimum", 40 * i + j}});
    many.push_back(any);
  }
  EXPECT_NE(OfSchema({{"allOf", many}}).find("anyOf"), std::string::npos);
}

TEST_F(HostileConstraint, CirclesOfReferencesSayNothing) {
  for (const char* defs :
       {R"({"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}})",
        R"({"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}})"}) {
    EXPECT_NE(OfSchema({{"$ref", "#/$defs/a"}, {"$defs", HostileJson::parse(defs)}}), "");
  }
}

TEST_F(HostileConstraint, LargeSchemasCompileOrAreRefused) {
  HostileJson properties, values;
  for (int i = 0; i < 1000; ++i) properties["field_" + std::to_string(i)] = {{"type", "integer"}};
  EXPECT_EQ(OfSchema({{"type", "object"}, {"properties", properties}}), "");
  properties["more"] = true;
  EXPECT_NE(OfSchema({{"properties", properties}}).find("1000 properties"), std::string::npos);
  for (int i = 0; i < 20'000; ++i) values.push_back("value " + std::to_string(i * 7919 % 20'011));
  EXPECT_EQ(OfSchema({{"enum", values}}), "");
  HostileJson deep = {{"type", "integer"}};
  for (int i = 0; i < 100; ++i) {
    deep = {{"type", "object"}, {"properties", {{"a", deep}}}, {"required", {"a"}}};
  }
  EXPECT_EQ(OfSchema(deep), "");
  EXPECT_EQ(OfSchema({{"type", "array"}, {"items", true}, {"maxItems", 1'000'000'000}}), "");
  EXPECT_NE(OfSchema({{"type", "array"}, {"minItems", 1'000'000'000}}).find("too large"),
            std::string::npos);
  EXPECT_NE(OfSchema({{"type", "string"}, {"minLength", 1'000'000'000}}).find("too large"),
            std::string::npos);
}

TEST_F(HostileConstraint, ContradictionsAreRefused) {
  for (const char* schema :
       {R"({"type":"integer","minimum":5,"maximum":3})",
        R"({"type":"string","minLength":5,"maxLength":3})",
        R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":4})",
        R"({"type":"object","required":["a"],"additionalProperties":false})",
        R"({"type":"string","enum":[1,2]})", R"({"allOf":[{"type":"integer"},{"type":"string"}]})",
        R"({"type":"array","minItems":3,"maxItems":2})",
        R"({"type":"object","properties":{"a":{},"b":{}},"required":["a","b"],"maxProperties":1})",
        R"({"allOf":[{"const":1},{"const":2}]})", R"({"const":1,"enum":[2]})",
        R"({"type":"string","format":"uuid","maxLength":10})",
        R"({"type":"integer","multipleOf":7,"minimum":1,"maximum":6})"}) {
    EXPECT_EQ(OfSchema(HostileJson::parse(schema)), "nothing can satisfy it") << schema;
  }
}

TEST_F(HostileConstraint, PatternsAreReadWithoutDepth) {
  EXPECT_NE(OfRegex("a" + Repeated("??", 100'000)).find("quantifier"), std::string::npos);
  EXPECT_NE(OfRegex(Repeated("(", 100'000)).find("too deep"), std::string::npos);
  EXPECT_EQ(OfRegex(Repeated("(", 150) + "a" + Repeated(")", 150)), "");
  EXPECT_NE(OfRegex("((a{0,99}){0,99}){0,99}").find("too large"), std::string::npos);
  EXPECT_NE(OfRegex("(){100000}(){100000}(){100000}(){100000}").find("too large"),
            std::string::npos);
  for (const char* slow : {"(a+)+b", "(a|a)*b", "(.*)*x", "(a?){500}a{500}", ".*.*.*.*.*.*=.*",
                           "(((((((a*)*)*)*)*)*)*)*", "[ab]*a[ab]{12}"}) {
    EXPECT_EQ(OfRegex(slow), "") << slow;
  }
  for (const char* odd : {"a{,3}", "\\q", "\\012", "a**", "a{2}{3}", "\\ud83d", "\\ud83d\\u0041",
                          "\\u{110000}", "[a", "(?i)a", "\\", "[]"}) {
    EXPECT_NE(OfRegex(odd), "") << odd;
  }
}

TEST_F(HostileConstraint, GrammarsAreReadWithoutDepth) {
  EXPECT_NE(OfGrammar("root ::= " + Repeated("(", 100'000)).find("too deep"), std::string::npos);
  EXPECT_NE(OfGrammar("root ::= a\na ::= b\nb ::= a | \"x\"").find("left recursion"),
            std::string::npos);
  EXPECT_NE(OfGrammar("root ::= \"\\uD83D\"").find("surrogate"), std::string::npos);
  EXPECT_NE(OfGrammar("root ::= \"\\U00110000\"").find("code point"), std::string::npos);
  EXPECT_NE(OfGrammar("root ::= ((\"a\"{1000}){1000}){1000}").find("too large"), std::string::npos);
  const ConstraintPart lines{
      .kind = Kind::kGrammar,
      .text = "root ::=\n  \"a\"\n  | c\r\n# a remark\nc ::= \"c\"\n \"d\"\n"};
  const auto made = compiler_.Compile(lines);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(TakesText(**made, "a") && TakesText(**made, "cd"));
  EXPECT_FALSE(TakesText(**made, "c") || TakesText(**made, "d"));
}

// Where the automaton has no room for what may follow, the text ends and is not taken for whole.
TEST_F(HostileConstraint, ATextThatIsCutByABoundIsNoDocument) {
  const WordVocabulary letters({"a", "b"});
  ConstraintCompiler compiler(letters.tokens);
  const auto made = compiler.Compile({.kind = Kind::kRegex, .text = "[ab]*a[ab]{5000}"});
  ASSERT_TRUE(made.ok()) << made.status().message();
  ConstraintMatcher matcher(*made);
  bool ended = false;
  for (int i = 0; i < 5000 && !ended; ++i) {
    const auto mask = matcher.Mask();
    const TokenId id = mask->Allows(0) ? 0 : mask->Allows(1) ? 1 : letters.end;
    matcher.Take(id);
    ended = id == letters.end;
  }
  ASSERT_TRUE(ended);
  EXPECT_TRUE(matcher.astray());
  ConstraintMatcher whole(compiler.Compile({.text = "ab"}).value());
  for (const TokenId id : {TokenId{0}, TokenId{1}, letters.end}) whole.Take(id);
  EXPECT_FALSE(whole.astray());
  ConstraintMatcher cut(compiler.Compile({.text = "ab"}).value());
  for (const TokenId id : {TokenId{0}, letters.end}) cut.Take(id);
  EXPECT_TRUE(cut.astray());
}

}  // namespace
}  // namespace tidemill
