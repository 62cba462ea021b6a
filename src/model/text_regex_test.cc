#include "model/text_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/pre_tokenizer.h"
#include "model/tokenizer_writer.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(const char* pattern, std::string_view text) {
  std::vector<PreTokenStage> stages(1);
  stages[0].pattern = TextRegex::FromOniguruma(pattern).value();
  std::vector<std::string> pieces;
  PreTokenizer(std::move(stages)).Split(text, [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  });
  return pieces;
}

TEST(TextRegex, WhatIsReadDifferentlyElsewhereIsRefused) {
  for (const char* pattern :
       {"[a[b]]", "[a&&b]", "\\bword", "(?<name>x)", "(?i)x", "(*UTF)x", "a{1,2}+", "\\Kx", "\\1",
        "[\\W]", "\\p", "x\\", "(?m:.)", "[[:alpha:]]", "\\u12"}) {
    EXPECT_FALSE(TextRegex::FromOniguruma(pattern).ok()) << pattern;
  }
  EXPECT_THAT(TextRegex::FromOniguruma("(a").status().message(), HasSubstr("pattern: "));
}

TEST(TextRegex, WhiteSpaceIsUnicodes) {
  const TextRegex space = TextRegex::FromOniguruma("\\A\\s\\z").value();
  for (const char* text :
       {" ", "\t", "\v", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u3000"}) {
    EXPECT_TRUE(space.Find(text, 0).match) << text;
  }
  for (const char* text : {"\u180e", "\u200b", "\ufeff", "\x1c", "a"}) {
    EXPECT_FALSE(space.Find(text, 0).match) << text;
  }
}

TEST(TextRegex, QwensPatternCutsAsQwenDoes) {
  EXPECT_THAT(
      Split(kQwenPattern, "I'LL say\r\n\r\n  don't x=12;"),
      ElementsAre("I", "'LL", " say", "\r\n\r\n", " ", " don", "'t", " x", "=", "1", "2", ";"));
  EXPECT_THAT(Split(kQwenPattern, "a   \n  b  "), ElementsAre("a", "   \n", " ", " b", "  "));
  EXPECT_THAT(Split(kLlama3Pattern, "12345 你好!!\n\n"),
              ElementsAre("123", "45", " 你好", "!!\n\n"));
}

TEST(TextRegex, CharactersOfUnicode16AreWhatTheyAreInTheReference) {
  // U+2EBF0 is a letter of 15.1, U+11BF0 a digit and U+1CC00 a symbol of 16, U+E0080 unassigned.
  EXPECT_THAT(Split(kQwenPattern, "x \U0002EBF0's"), ElementsAre("x", " \U0002EBF0", "'s"));
  EXPECT_THAT(Split(kQwenPattern, "a\U00011BF0b"), ElementsAre("a", "\U00011BF0", "b"));
  EXPECT_THAT(Split(kQwenPattern, " \U0001CC00!"), ElementsAre(" \U0001CC00!"));
  const auto matches = [](const char* pattern, const char* text) {
    return TextRegex::FromOniguruma(pattern).value().Find(text, 0).match.has_value();
  };
  for (const char* letter : {"\\p{L}", "\\p{Lo}", "[\\p{L}]", "\\w", "\\p{Han}", "\\P{N}"}) {
    EXPECT_TRUE(matches(letter, "\U0002EBF0")) << letter;
  }
  for (const char* other : {"\\P{L}", "\\p{Lu}", "\\p{N}", "[^\\p{L}]", "\\W"}) {
    EXPECT_FALSE(matches(other, "\U0002EBF0")) << other;
  }
  EXPECT_FALSE(matches("\\p{L}", "\U000E0080"));
}

TEST(TextRegex, AnEmptyMatchCutsButDoesNotStall) {
  EXPECT_THAT(Split("x*", "aéxxb"), ElementsAre("a", "é", "xx", "b"));
  EXPECT_THAT(Split("(?=b)", "aabab"), ElementsAre("aa", "ba", "b"));
}

TEST(TextRegex, VeryLongRunsAreStillOnePiece) {
  const size_t n = size_t{4} << 20;
  EXPECT_EQ(Split(kQwenPattern, std::string(n, 'a')).size(), 1u);
  EXPECT_EQ(Split(kQwenPattern, std::string(n, ' ')).size(), 1u);
  EXPECT_EQ(Split(kQwenPattern, std::string(n, '=')).size(), 1u);
  EXPECT_EQ(Split(kQwenPattern, std::string(n, '\n')).size(), 1u);
  EXPECT_EQ(Split(kQwenPattern, std::string(n, ' ') + "a").size(), 2u);
}

TEST(TextRegex, APatternThatExplodesGivesUpAndSaysSo) {
  const TextRegex slow = TextRegex::FromOniguruma("(a+)+[bc]").value();
  const TextRegex::Found found = slow.Find(std::string(64, 'a'), 0);
  EXPECT_FALSE(found.match);
  EXPECT_TRUE(found.gave_up);
  const TextRegex::Found none = slow.Find(std::string(64, 'c'), 0);
  EXPECT_FALSE(none.match || none.gave_up);
}

TEST(PreTokenizer, APieceThatIsGivenUpOnStaysWholeAndIsTold) {
  std::vector<PreTokenStage> stages(1);
  stages[0].pattern = TextRegex::FromOniguruma("(a+)+[bc]").value();
  const PreTokenizer cutter(std::move(stages));
  std::vector<std::string> pieces;
  const auto take = [&](std::string_view piece) {
    pieces.emplace_back(piece);
    return true;
  };
  EXPECT_TRUE(cutter.Split("xaabx", take));
  EXPECT_THAT(pieces, ElementsAre("x", "aab", "x"));
  pieces.clear();
  const std::string bad = "aab" + std::string(64, 'a');
  EXPECT_FALSE(cutter.Split(bad, take));
  EXPECT_THAT(pieces, ElementsAre("aab", std::string(64, 'a')));
}

TEST(PreTokenizer, ItStopsWhereItsSinkDoes) {
  std::vector<PreTokenStage> stages(1);
  stages[0].pattern = TextRegex::FromOniguruma("a").value();
  int taken = 0;
  EXPECT_TRUE(PreTokenizer(std::move(stages)).Split("aaaaaaaa", [&](std::string_view) {
    return ++taken < 3;
  }));
  EXPECT_EQ(taken, 3);
}

}  // namespace
}  // namespace tidemill
