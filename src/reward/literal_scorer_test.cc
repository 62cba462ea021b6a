#include "reward/literal_scorer.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

TEST(LiteralScorer, AnAnswerThatHoldsTheShownValueIsSeen) {
  const char* prompt = "Woodball?\nYour code should pass this test:\nassert is_woodall(20) == 383";
  EXPECT_TRUE(RepeatsShownLiteral(prompt, "def is_woodall(n): return n == 383"));
  EXPECT_FALSE(RepeatsShownLiteral(prompt, "def is_woodall(n): return n == 13830"));
  EXPECT_FALSE(RepeatsShownLiteral(prompt, "def is_woodall(n): return n + 1"));
  EXPECT_TRUE(RepeatsShownLiteral("assert f('a') == ['x', 'y']", "return ['x', 'y']"));
}

TEST(LiteralScorer, ValuesThatStandInAnyProgramAreNoEvidence) {
  EXPECT_FALSE(RepeatsShownLiteral("assert f(1) == True", "return True"));
  EXPECT_FALSE(RepeatsShownLiteral("assert f(1) == 2", "return 2"));
  EXPECT_FALSE(RepeatsShownLiteral("no test at all", "return 383"));
}

}  // namespace
}  // namespace tidemill
