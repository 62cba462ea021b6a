#include "prover/c_machine.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

struct Ran {
  Status status;
  CRun run;
};

Ran RunText(const std::string& text, std::vector<int64_t> input, uint64_t steps = 100'000) {
  const auto program = ParseC(text, "f");
  if (!program.ok()) return {program.status(), {}};
  const auto code = CompileC(*program);
  if (!code.ok()) return {code.status(), {}};
  return {Ok(), CMachine(*code).Run(input, steps)};
}

// f(a, b) with int parameters.
CRun Evaluate(const std::string& expression, int a, int b) {
  const Ran ran = RunText("int f(int a, int b) { return " + expression + "; }", {a, b});
  EXPECT_TRUE(ran.status.ok()) << ran.status.ToString();
  return ran.run;
}

TEST(CMachine, ComputesAsC) {
  EXPECT_EQ(Evaluate("a / b", -7, 2).value, -3);
  EXPECT_EQ(Evaluate("a % b", -7, 2).value, -1);
  EXPECT_EQ(Evaluate("a >> b", -7, 1).value, -4);
  EXPECT_EQ(Evaluate("(unsigned)a >> b", -1, 28).value, 15);
  EXPECT_EQ(Evaluate("a < (unsigned)b", -1, 1).value, 0);
  EXPECT_EQ(Evaluate("(unsigned char)a + (signed char)b", 300, 200).value, 44 - 56);
  EXPECT_EQ(Evaluate("sizeof(char) < a", -1, 0).value, 1);
  EXPECT_EQ(Evaluate("(_Bool)a + (_Bool)256", 2, 0).value, 2);
  EXPECT_EQ(Evaluate("0x80000000 > a", -1, 0).value, 0);
  EXPECT_EQ(Evaluate("2147483648 > a", -1, 0).value, 1);
  EXPECT_EQ(Evaluate("'\\xff' + 'A'", 0, 0).value, 64);
  EXPECT_EQ(Evaluate("a ? 1 : -1u < 0", 0, 0).value, 0);
  EXPECT_EQ(Evaluate("a, b", 1, 2).value, 2);
  EXPECT_EQ(Evaluate("a++ * 10 + --b", 1, 2).value, 11);
}

TEST(CMachine, StringsAreArraysOfCharacters) {
  EXPECT_EQ(Evaluate("\"xyz\"[a]", 1, 0).value, 'y');
  EXPECT_EQ(Evaluate("\"xyz\"[a]", 3, 0).value, 0);
  EXPECT_EQ(Evaluate("\"xyz\"[a]", 4, 0).undefined, CUndefined::kBounds);
  EXPECT_EQ(Evaluate("(int)sizeof(\"a\\n\" \"\\x62\\\"\")", 0, 0).value, 5);
  const std::string text =
      "int f(int a) { char t[] = \"abc\", u[2][4] = {\"no\", \"yes\"};\n"
      "const char *p = \"0123\"; t[1]++; return t[a] * 10000 + u[1][a] * 100 + p[a] - '0'; }";
  EXPECT_EQ(RunText(text, {1}).run.value, 'c' * 10000 + 'e' * 100 + 1);
  EXPECT_EQ(RunText(text, {3}).run.value, 3);
  // Writing to a string is not followed.
  EXPECT_EQ(RunText("int f(int a) { char *p = \"ab\"; p[0] = 'x'; return p[a]; }", {1}).run.end,
            CRun::End::kUnsupported);
}

TEST(CMachine, NamesWhatIsUndefined) {
  const auto why = [](const std::string& expression, int a, int b) {
    const CRun run = Evaluate(expression, a, b);
    EXPECT_EQ(run.end, CRun::End::kUndefined) << expression;
    return run.undefined;
  };
  const int most = 2147483647;
  EXPECT_EQ(why("a + b", most, 1), CUndefined::kOverflow);
  EXPECT_EQ(why("a - b", -2, most), CUndefined::kOverflow);
  EXPECT_EQ(why("-a", -most - 1, 0), CUndefined::kOverflow);
  EXPECT_EQ(why("a / b", -most - 1, -1), CUndefined::kOverflow);
  EXPECT_EQ(why("a % b", 1, 0), CUndefined::kDivisionByZero);
  EXPECT_EQ(why("a << b", 1, 32), CUndefined::kShiftCount);
  EXPECT_EQ(why("a >> b", 1, -1), CUndefined::kShiftCount);
  EXPECT_EQ(why("a << b", -1, 1), CUndefined::kShiftNegative);
  EXPECT_EQ(why("a << b", 1, 31), CUndefined::kShiftOverflow);
  EXPECT_EQ(why("abs(a)", -most - 1, 0), CUndefined::kOverflow);
  EXPECT_EQ(why("__builtin_clz(a)", 0, 0), CUndefined::kBitsOfZero);
}

TEST(CMachine, ArraysHaveBoundsAndValues) {
  const auto ended = [](const std::string& body, int a) {
    const Ran ran = RunText("int f(int a) { " + body + " }", {a});
    EXPECT_TRUE(ran.status.ok()) << body << ran.status.ToString();
    return ran.run;
  };
  EXPECT_EQ(ended("int t[3] = {7}; return t[a];", 2).value, 0);
  EXPECT_EQ(ended("int t[3] = {7}; return t[a];", 3).undefined, CUndefined::kBounds);
  EXPECT_EQ(ended("int t[3] = {7}; return t[a];", -1).undefined, CUndefined::kBounds);
  EXPECT_EQ(ended("int m[2][3] = {{0}}; return m[0][a];", 3).undefined, CUndefined::kBounds);
  EXPECT_EQ(ended("int t[3]; int *p = t + a; return p == t;", 3).value, 0);
  EXPECT_EQ(ended("int t[3]; int *p = t + a; return p == t;", 4).undefined, CUndefined::kBounds);
  EXPECT_EQ(ended("int x; if (a) x = 1; return x;", 0).undefined, CUndefined::kUninitialised);
  EXPECT_EQ(ended("for (int i = 0; i < 2; i++) { int x; if (i == 0) x = 1; a += x; } return a;", 0)
                .undefined,
            CUndefined::kUninitialised);
  EXPECT_TRUE(ended("int t[2]; t[0] = 1; return t[a];", 1).read_unset);
  EXPECT_FALSE(ended("int t[2]; t[0] = 1; return t[a];", 0).read_unset);
  EXPECT_EQ(ended("int *p = 0; return *p;", 0).undefined, CUndefined::kPointer);
  EXPECT_EQ(ended("switch (a) { int x; case 0: x = 1; return x; case 1: return x; } return 9;", 1)
                .undefined,
            CUndefined::kUninitialised);
}

TEST(CMachine, AMissingReturnMattersOnlyIfTheValueIsUsed) {
  const std::string helper = "static int g(int *p) { *p += 1; } int f(int a) { ";
  EXPECT_EQ(RunText(helper + "g(&a); return a; }", {1}).run.value, 2);
  EXPECT_EQ(RunText(helper + "return g(&a); }", {1}).run.undefined, CUndefined::kNoReturn);
}

TEST(CMachine, EndsWithinItsSteps) {
  EXPECT_EQ(RunText("int f(int a) { while (1) a ^= 1; }", {1}).run.end, CRun::End::kSteps);
  EXPECT_EQ(RunText("int f(int a) { return f(a); }", {1}).run.end, CRun::End::kDepth);
}

TEST(CMachine, ARunThatComesBackToItsStateNeverEnds) {
  const auto repeats = [](const std::string& text) {
    const auto program = ParseC(text, "f");
    const auto code = CompileC(*program);
    CMachine machine(*code);
    const int64_t input[] = {5};
    return machine.Repeats(input, 100'000);
  };
  EXPECT_TRUE(repeats("int f(int a) { while (a) a ^= 6; return a; }"));
  EXPECT_TRUE(repeats("int f(int a) { int t[2] = {0}; for (;;) t[a & 1] = 1 - t[a & 1]; }"));
  EXPECT_FALSE(repeats("int f(int a) { unsigned i = 0; while (++i); return a; }"));
  EXPECT_FALSE(repeats("int f(int a) { while (a) a--; return a; }"));
}

TEST(CMachine, ArgumentsAndResultsHaveTheirTypes) {
  EXPECT_EQ(RunText("unsigned f(unsigned a) { return a - 1; }", {0}).run.value, 4294967295);
  EXPECT_EQ(RunText("short f(long a) { return a; }", {65535}).run.value, -1);
  EXPECT_EQ(RunText("unsigned long f(void) { return -1; }", {}).run.value, -1);
}

}  // namespace
}  // namespace tidemill
