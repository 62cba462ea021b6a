#include "prover/prover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using testing::HasSubstr;

ProofOptions Within(int64_t low, int64_t high) {
  ProofOptions options;
  options.has_range = true;
  options.low = low;
  options.high = high;
  return options;
}

Proof Judged(const std::string& reference, const std::string& candidate,
             const ProofOptions& options = Within(-40, 40)) {
  auto proof = ProveEquivalent({reference, candidate}, options);
  EXPECT_TRUE(proof.ok()) << proof.status().ToString();
  return proof.ok() ? *proof : Proof();
}

std::string F(const std::string& expression) {
  return "int f(int a, int b) { return " + expression + "; }";
}

TEST(Equivalence, ACandidateThatDoesTheSameIsProved) {
  EXPECT_EQ(Judged(F("a * (b + 2)"), F("a * b + 2 * a")).method, "algebra");
  EXPECT_EQ(Judged(F("a ^ b"), F("(a | b) - (a & b)")).verdict, ProofVerdict::kProved);
  const Proof proof = Judged(F("a % 3"), "int f(int a, int b) { return a - a / 3 * 3; }");
  EXPECT_EQ(proof.verdict, ProofVerdict::kProved);
  EXPECT_EQ(proof.method, "exhaustive");
  EXPECT_GE(proof.inputs_tried, 81u * 81u);
}

TEST(Equivalence, ACandidateThatDiffersIsRefutedByAnInput) {
  const Proof proof = Judged(F("a < b ? a : b"), F("a < b ? b : a"));
  ASSERT_EQ(proof.verdict, ProofVerdict::kRefuted);
  ASSERT_EQ(proof.inputs.size(), 2u);
  EXPECT_EQ(proof.reference.value, std::min(proof.inputs[0].value, proof.inputs[1].value));
  EXPECT_EQ(proof.candidate.value, std::max(proof.inputs[0].value, proof.inputs[1].value));
}

TEST(Equivalence, ADifferenceOnOneInputIsFound) {
  const Proof proof = Judged(F("a + b"), F("a == -17 && b == 33 ? 0 : a + b"));
  EXPECT_EQ(proof.verdict, ProofVerdict::kRefuted);
  EXPECT_EQ(proof.Text(), "f(a=-17, b=33): the reference returns 16, the candidate returns 0");
}

TEST(Equivalence, UndefinedBehaviourRefutesAndIsNamed) {
  const Proof proof = Judged(F("b == 0 ? 0 : a / b"), F("a / b"));
  ASSERT_EQ(proof.verdict, ProofVerdict::kRefuted);
  EXPECT_EQ(proof.inputs[1].value, 0);
  EXPECT_THAT(proof.Text(), HasSubstr("the candidate is undefined (line 1: division by zero)"));
  EXPECT_EQ(Judged(F("a * 4"), F("a << 2")).verdict, ProofVerdict::kRefuted);
}

TEST(Equivalence, WhereTheReferenceIsUndefinedNothingIsProved) {
  const Proof proof = Judged(F("a / b"), F("b ? a / b : 0"));
  EXPECT_EQ(proof.verdict, ProofVerdict::kUnknown);
  EXPECT_THAT(proof.Text(), HasSubstr("the reference is undefined (line 1: division by zero)"));
  EXPECT_EQ(Judged(F("a / b"), F("a / b")).verdict, ProofVerdict::kUnknown);
  // Elsewhere a difference counts.
  const Proof differs = Judged(F("a / b"), F("b ? a / b + (a == 3) : 0"));
  ASSERT_EQ(differs.verdict, ProofVerdict::kRefuted);
  EXPECT_EQ(differs.inputs[0].value, 3);
}

TEST(Equivalence, AnElementWithoutAValueRefutesOnlyIfTheResultDependsOnIt) {
  const std::string start = "int f(int a, int b) { int t[2]; t[0] = a; ";
  EXPECT_EQ(Judged(F("a"), start + "return t[b & 1]; }").verdict, ProofVerdict::kRefuted);
  EXPECT_EQ(Judged(F("a"), start + "int u[2]; u[1] = t[1]; return t[0]; }").verdict,
            ProofVerdict::kUnknown);
}

TEST(Equivalence, ACandidateThatNeverEndsIsRefutedWhereThatIsSure) {
  const Proof sure = Judged(F("0"), "int f(int a, int b) { while (a != 0) a = -a; return 0; }");
  EXPECT_EQ(sure.verdict, ProofVerdict::kRefuted);
  EXPECT_THAT(sure.Text(), HasSubstr("never ends"));
  const Proof unsure =
      Judged(F("0"), "int f(int a, int b) { unsigned long i = 0; while (++i) ; return 0; }");
  EXPECT_EQ(unsure.verdict, ProofVerdict::kUnknown);
  EXPECT_THAT(unsure.reason, HasSubstr("did not end within"));
}

TEST(Equivalence, LargeRangesAreProvedByAlgebraOrZ3) {
  const Proof algebra = Judged(F("(a + b) * (a - b)"), F("a * a - b * b"), Within(-20000, 20000));
  EXPECT_EQ(algebra.verdict, ProofVerdict::kProved);
  EXPECT_EQ(algebra.method, "algebra");
  const ProofOptions all;
  const Proof z3 = Judged(F("a ^ b"), F("(a & ~b) | (~a & b)"), all);
  EXPECT_EQ(z3.verdict, ProofVerdict::kProved);
  EXPECT_EQ(z3.method, "z3");
  const Proof loop = Judged(
      "int f(int a, int b) { int n = 0; for (int i = 0; i < 8; i++) n += a >> i & 1; return n; }",
      F("__builtin_popcount(a & 255)"), all);
  EXPECT_EQ(loop.verdict, ProofVerdict::kProved);
  EXPECT_EQ(loop.method, "z3");
}

TEST(Equivalence, Z3FindsWhatProbesMiss) {
  const Proof proof = Judged(F("a ^ b"), F("a == 123456789 && b == -987654321 ? 0 : a ^ b"), {});
  ASSERT_EQ(proof.verdict, ProofVerdict::kRefuted);
  EXPECT_EQ(proof.method, "z3");
  EXPECT_EQ(proof.inputs[0].value, 123456789);
  EXPECT_EQ(Judged(F("a"), F("a + b - b"), {}).verdict, ProofVerdict::kRefuted);
}

TEST(Equivalence, TheSameQuestionGetsTheSameAnswer) {
  const std::string reference = F("a * a % 7 + b"), candidate = F("a % 7 * a % 7 + b");
  ProofOptions options;
  options.z3_rlimit = 100'000;
  const Proof first = Judged(reference, candidate, options);
  for (int i = 0; i < 3; ++i) {
    const Proof again = Judged(reference, candidate, options);
    EXPECT_EQ(again.verdict, first.verdict);
    EXPECT_EQ(again.Text(), first.Text());
    EXPECT_EQ(again.steps, first.steps);
  }
}

TEST(Equivalence, TheFunctionIsTheOneBothTextsHave) {
  const std::string reference = "static int h(int x) { return x; } int g(int a) { return h(a); }";
  EXPECT_EQ(Judged(reference, "int g(int a) { return a; } int main(void) { return 0; }").function,
            "g");
  ProofOptions options = Within(-3, 3);
  options.function = "h";
  EXPECT_EQ(ProveEquivalent({reference, "int g(int a) { return a; }"}, options).status().code(),
            Code::kInvalid);
  EXPECT_EQ(ProveEquivalent({reference, "int k(int a) { return a; }"}, {}).status().code(),
            Code::kInvalid);
}

TEST(Equivalence, WhatCannotBeComparedIsUnknown) {
  EXPECT_EQ(Judged(F("a"), "int f(int a) { return a; }").verdict, ProofVerdict::kUnknown);
  EXPECT_EQ(Judged("int f(int *p) { return *p; }", "int f(int *p) { return *p; }").verdict,
            ProofVerdict::kUnknown);
  EXPECT_EQ(Judged(F("a"), "double g; int f(int a, int b) { return g; }").verdict,
            ProofVerdict::kUnknown);
}

TEST(Equivalence, ARangeIsCutToTheTypeAndMustHaveAValue) {
  const std::string f = "int f(unsigned char a) { return a; }";
  const Proof proof = Judged(f, "int f(unsigned char a) { return a & 255; }", Within(-40, 1000));
  EXPECT_EQ(proof.verdict, ProofVerdict::kProved);
  EXPECT_EQ(ProveEquivalent({f, f}, Within(-40, -1)).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace tidemill
