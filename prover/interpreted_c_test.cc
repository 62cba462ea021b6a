#include <gtest/gtest.h>

#include <array>

#include "prover/prover.h"

namespace tidemill {
namespace {

using TwoInts = std::array<int64_t, 2>;
constexpr uint64_t kSteps = 10'000;

std::optional<int64_t> Called(const std::string& text, std::span<const int64_t> inputs) {
  auto function = InterpretedC::Read(text, "f");
  return function.ok() ? function->Call(inputs, kSteps) : std::nullopt;
}

bool PlainFor(const std::string& text, size_t ints) {
  const auto function = InterpretedC::Read(text, "f");
  return function.ok() && function->IsPlain(ints);
}

TEST(InterpretedC, GivesWhatTheFunctionReturns) {
  const std::string text =
      "int f(int a, int b) { while (b) { int t = a % b; a = b; b = t; } return a; }";
  auto function = InterpretedC::Read(text, "f");
  ASSERT_TRUE(function.ok());
  EXPECT_EQ(function->Call(TwoInts{48, 36}, kSteps), 12);
  EXPECT_EQ(function->Call(TwoInts{7, 5}, kSteps), 1);  // the same machine again
}

TEST(InterpretedC, GivesNothingWhereCDefinesNoResult) {
  EXPECT_EQ(Called("int f(int a, int b) { return a / b; }", TwoInts{1, 0}), std::nullopt);
  EXPECT_EQ(Called("int f(int a, int b) { int t[2]; t[0] = a; return t[1]; }", TwoInts{1, 2}),
            std::nullopt);
  EXPECT_EQ(Called("int f(int a, int b) { for (;;) a = b; return a; }", TwoInts{1, 2}),
            std::nullopt);
  EXPECT_EQ(Called("int f(int a) { return a; }", TwoInts{1, 2}), std::nullopt);
}

TEST(InterpretedC, IsPlainOnlyWhereEveryCompilerReadsTheSame) {
  EXPECT_TRUE(PlainFor("int f(int a,int b){return a<b?a:b;}", 2));
  EXPECT_FALSE(PlainFor("int f(int a,int b){return a<b?a:b;}", 1));
  EXPECT_FALSE(PlainFor("#include <stdlib.h>\nint f(int a,int b){return abs(a-b);}", 2));
  EXPECT_FALSE(PlainFor("int g(int a){return a;}int f(int a,int b){return g(a)+b;}", 2));
  EXPECT_FALSE(PlainFor("long f(int a,int b){return a+b;}", 2));
}

}  // namespace
}  // namespace tidemill
