#include "engine/constraint/constraint.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "testing/constraint_kit.h"

namespace tidemill {
namespace {

using Kind = ConstraintPart::Kind;

std::shared_ptr<const Constraint> Compiled(const WordVocabulary& vocabulary,
                                           const ConstraintPart& part) {
  ConstraintCompiler compiler(vocabulary.tokens);
  auto made = compiler.Compile(part);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return made.ok() ? *made : nullptr;
}

std::string Refusal(const ConstraintPart& part, const ConstraintLimits& limits = {}) {
  NetworkBuilder::ByteSet all;
  all.fill(true);
  const auto made = CompileConstraint(part, limits, all);
  return made.ok() ? "" : made.status().message();
}

// All texts over the letters with at most so many.
std::vector<std::string> Texts(const std::string& letters, size_t most) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == most) continue;
    for (const char letter : letters) texts.push_back(texts[i] + letter);
  }
  return texts;
}

// Everything that tokens under the masks can spell is the beginning of a text of the language, ends
// are offered exactly behind its texts, and all of them can be spelt.
void ExpectExactly(const WordVocabulary& vocabulary, const ConstraintPart& part,
                   const std::set<std::string>& language, const std::string& name) {
  const auto constraint = Compiled(vocabulary, part);
  ASSERT_NE(constraint, nullptr) << name;
  std::set<std::string> beginnings, reached, ended;
  for (const std::string& text : language) {
    for (size_t n = 0; n <= text.size(); ++n) beginnings.insert(text.substr(0, n));
  }
  std::vector<std::pair<std::string, ConstraintMatcher>> open{{"", ConstraintMatcher(constraint)}};
  while (!open.empty()) {
    auto [text, matcher] = std::move(open.back());
    open.pop_back();
    ASSERT_TRUE(beginnings.contains(text)) << name << ": \"" << text << "\" begins nothing";
    reached.insert(text);
    const auto mask = matcher.Mask();
    for (TokenId id = 0; id < vocabulary.end; ++id) {
      const std::string next = text + vocabulary.words[static_cast<size_t>(id)];
      ASSERT_EQ(mask->Allows(id), beginnings.contains(next)) << name << ": \"" << next << "\"";
      if (!mask->Allows(id)) continue;
      ConstraintMatcher after = matcher;
      after.Take(id);
      open.emplace_back(next, std::move(after));
    }
    if (mask->Allows(vocabulary.end)) ended.insert(text);
  }
  EXPECT_EQ(ended, language) << name;
}

TEST(Constraint, PatternsAllowWhatTheyMatchAndNothingElse) {
  const WordVocabulary vocabulary({"a", "b", "c", "ab", "bc", "abc", "cc", "ba", "aab"});
  const std::vector<std::string> texts = Texts("abc", 6);
  for (const char* pattern :
       {"abc", "a|bc|cab", "(a|b){1,3}c?", "[ab]{2}(c|)", "a?b?c?", "(ab|a)(bc|c){0,2}",
        "[^c]{1,2}c{1,2}", "(?:a(?:b|c)){1,2}", "(a{0,2}b){2}", "a{2,4}", "^abc$", "(a|ab)(c|bcb)",
        "\\x61\\u0062[a-b]", "(a|b|c){0,3}"}) {
    const std::regex reference(pattern);
    std::set<std::string> language;
    for (const std::string& text : texts) {
      if (std::regex_match(text, reference)) language.insert(text);
    }
    ExpectExactly(vocabulary, {.kind = Kind::kRegex, .text = pattern}, language, pattern);
  }
}

TEST(Constraint, GrammarsAllowWhatTheyDeriveAndNothingElse) {
  const WordVocabulary vocabulary({"(", ")", "x", "+", "((", "))", "x)", "(x", "x+", "+x", ")+("});
  // Sums in at most two parentheses.
  const std::string grammar = R"~(
# sums
root ::= sum0
sum0 ::= part0 ("+" part0)?   # two parts
part0 ::= "x" | "(" sum1 ")"
sum1 ::= part1 ( "+"
   part1 )?
part1 ::= "x" | [(] "x" [)]
)~";
  std::set<std::string> inner{"x", "(x)"}, sums, parts{"x"}, language;
  for (const std::string& a : inner) {
    sums.insert(a);
    for (const std::string& b : inner) sums.insert(a + "+" + b);
  }
  for (const std::string& sum : sums) parts.insert("(" + sum + ")");
  for (const std::string& a : parts) {
    language.insert(a);
    for (const std::string& b : parts) language.insert(a + "+" + b);
  }
  ExpectExactly(vocabulary, {.kind = Kind::kGrammar, .text = grammar}, language, "sums");
}

TEST(Constraint, NestedCallsReturnToWhereTheyCameFrom) {
  // The tokens close several brackets at once, of both kinds.
  const WordVocabulary vocabulary(
      {"[", "]", "{", "}", "]]", "]}", "}]", "}}", "[{", "{[", "[[", "]}]"});
  const auto constraint = Compiled(
      vocabulary,
      {.kind = Kind::kGrammar,
       .text = "root ::= list\nlist ::= \"[\" item* \"]\"\nitem ::= list | \"{\" item* \"}\""});
  Random random(7);
  for (int round = 0; round < 400; ++round) {
    ConstraintMatcher matcher(constraint);
    std::string open;
    bool over = false;
    for (int step = 0; step < 40 && !over; ++step) {
      const auto mask = matcher.Mask();
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id <= vocabulary.end; ++id) {
        // What a stack says.
        std::string stack = open;
        bool fits = id != vocabulary.end || (step > 0 && open.empty());
        bool begun = step > 0;
        for (const char c :
             id == vocabulary.end ? std::string() : vocabulary.words[static_cast<size_t>(id)]) {
          const bool first = !begun;
          begun = true;
          if (stack.empty() && !(first && c == '[')) fits = false;
          if (c == '[' || c == '{') {
            stack.push_back(c);
          } else if (!stack.empty() && stack.back() == (c == ']' ? '[' : '{')) {
            stack.pop_back();
          } else {
            fits = false;
          }
        }
        ASSERT_EQ(mask->Allows(id), fits) << open << " then " << id;
        if (fits) allowed.push_back(id);
      }
      const TokenId id = allowed[random.Below(allowed.size())];
      matcher.Take(id);
      if (id == vocabulary.end) {
        over = true;
        continue;
      }
      for (const char c : vocabulary.words[static_cast<size_t>(id)]) {
        if (c == '[' || c == '{') {
          open.push_back(c);
        } else {
          open.pop_back();
        }
      }
    }
  }
}

TEST(Constraint, ChoicesMayBeginAlike) {
  const WordVocabulary vocabulary({"y", "e", "s", "n", "o", "ye", "yes", "no", "!"});
  ConstraintPart part{.kind = Kind::kChoice};
  for (const char* text : {"yes", "yes!", "no", "y"}) part.parts.push_back({.text = text});
  ExpectExactly(vocabulary, part, {"yes", "yes!", "no", "y"}, "choices");
}

TEST(Constraint, FreeTextEndsWithItsMark) {
  const WordVocabulary vocabulary({"a", "b", "ab", "aab", "x"});
  const ConstraintPart until{.kind = Kind::kSequence,
                             .parts = {{.kind = Kind::kUntil, .text = "aab"}, {.text = "x"}}};
  const auto constraint = Compiled(vocabulary, until);
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const DrawnText drawn = DrawText(vocabulary, constraint, random, 400);
    if (!drawn.ended) continue;
    EXPECT_EQ(drawn.text.find("aab"), drawn.text.size() - 4) << drawn.text;
    EXPECT_EQ(drawn.text.back(), 'x');
  }
  const auto without = Compiled(vocabulary, {.kind = Kind::kWithout, .text = "aab"});
  for (int round = 0; round < 200; ++round) {
    EXPECT_EQ(DrawText(vocabulary, without, random, 20).text.find("aab"), std::string::npos);
  }
}

TEST(Constraint, WhatTheVocabularyCannotWriteIsLeftOut) {
  const WordVocabulary vocabulary({"a", "b", "xy"});  // no token is "x" alone
  const auto constraint = Compiled(vocabulary, {.kind = Kind::kRegex, .text = "a|b|x|xy"});
  std::set<std::string> language{"a", "b"};
  ExpectExactly(vocabulary, {.kind = Kind::kRegex, .text = "a|b|x|xyz"}, language, "bytes");
  ConstraintCompiler compiler(vocabulary.tokens);
  EXPECT_FALSE(compiler.Compile({.kind = Kind::kRegex, .text = "q"}).ok());
}

TEST(Constraint, WhatIsForcedAndDoesNotFitEndsTheTurn) {
  const WordVocabulary vocabulary({"a", "b"});
  ConstraintMatcher matcher(Compiled(vocabulary, {.text = "aa"}));
  matcher.Take(1);
  EXPECT_TRUE(matcher.astray());
  EXPECT_TRUE(matcher.Mask()->Allows(vocabulary.end));
  EXPECT_EQ(matcher.Mask()->count(), 1u);
}

TEST(Constraint, WhatCannotBeDoneIsRefusedByName) {
  const auto regex = [](const char* pattern) {
    return Refusal({.kind = Kind::kRegex, .text = pattern});
  };
  EXPECT_NE(regex("a(?=b)").find("look-ahead"), std::string::npos);
  EXPECT_NE(regex("(a)\\1").find("references"), std::string::npos);
  EXPECT_NE(regex("\\bword").find("word boundaries"), std::string::npos);
  EXPECT_NE(regex("a^b").find("anchor"), std::string::npos);
  EXPECT_NE(regex("(a").find("not closed"), std::string::npos);
  EXPECT_NE(regex("a)").find("closes nothing"), std::string::npos);
  EXPECT_NE(regex("*a").find("follows nothing"), std::string::npos);
  EXPECT_NE(regex("[b-a]").find("reversed"), std::string::npos);
  EXPECT_NE(regex("[^\\u{0}-\\u{10FFFF}]").find("nothing can satisfy it"), std::string::npos);
  EXPECT_NE(regex("((a{1000}){1000}){1000}").find("too large"), std::string::npos);
  const auto grammar = [](const char* text) {
    return Refusal({.kind = Kind::kGrammar, .text = text});
  };
  EXPECT_NE(grammar("root ::= root \"a\" | \"b\"").find("left recursion"), std::string::npos);
  EXPECT_NE(grammar("root ::= a\na ::= \"\" root").find("nothing can satisfy it"),
            std::string::npos);
  EXPECT_NE(grammar("root ::= e root \"x\" | \"y\"\ne ::= \"\"").find("left recursion"),
            std::string::npos);
  EXPECT_NE(grammar("root ::= other").find("no rule \"other\""), std::string::npos);
  EXPECT_NE(grammar("rule ::= \"a\"").find("no rule \"root\""), std::string::npos);
  EXPECT_NE(grammar("root ::= \"a\"\nroot ::= \"b\"").find("twice"), std::string::npos);
  EXPECT_NE(grammar("root = \"a\"").find("::="), std::string::npos);
}

TEST(Constraint, TheSameConstraintIsCompiledOnce) {
  const WordVocabulary vocabulary({"a", "b"});
  ConstraintCompiler compiler(vocabulary.tokens);
  const ConstraintPart part{.kind = Kind::kRegex, .text = "(a|b){3}"};
  EXPECT_EQ(*compiler.Compile(part), *compiler.Compile(part));
}

TEST(Constraint, AnAutomatonThatGrewTooLargeIsMadeAnew) {
  const WordVocabulary vocabulary({"a", "b"});
  NetworkBuilder::ByteSet all;
  all.fill(true);
  auto network = CompileConstraint({.kind = Kind::kRegex, .text = "(a|b){64}"}, {}, all);
  ASSERT_TRUE(network.ok());
  ConstraintAutomaton automaton(std::make_shared<const ByteNetwork>(*network), vocabulary.tokens,
                                {.states = 8});
  auto state = automaton.start();
  EXPECT_FALSE(automaton.worn());
  for (int i = 0; i < 64 && state != ConstraintAutomaton::kDead; ++i) {
    state = automaton.Follow(state, "a");
  }
  EXPECT_TRUE(automaton.worn());
  EXPECT_EQ(state, ConstraintAutomaton::kDead) << "its memory is bounded";
}

}  // namespace
}  // namespace tidemill
