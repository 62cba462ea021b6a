// Every verdict is compared with what a compiler's code does on every input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "prover/prover.h"
#include "prover/test_kit/judgement.h"
#include "prover/test_kit/odd_c.h"
#include "prover/test_kit/proof_pairs.h"
#include "prover/test_kit/proof_soak.h"
#include "testing/test_folders.h"

namespace tidemill {
namespace {

// gcc is on every machine that builds; TIDEMILL_ORACLE=clang names a compiler whose sanitizer sees
// more.
COracleOptions Oracle() {
  COracleOptions options;
  const char* compiler = std::getenv("TIDEMILL_ORACLE");
  options.compiler = compiler != nullptr ? compiler : "gcc";
  return options;
}

ProofOptions RangeOf(const COracleOptions& oracle) {
  ProofOptions options;
  options.has_range = true;
  options.low = oracle.low;
  options.high = oracle.high;
  return options;
}

// The answers of a compiler to every text of the pairs, each asked once.
class Answers {
 public:
  Answers(const std::vector<ProofPair>& pairs, const COracleOptions& oracle) {
    std::vector<std::string> texts;
    for (const ProofPair& pair : pairs) {
      for (const std::string* text : {&pair.reference, &pair.candidate}) {
        if (places_.emplace(*text, texts.size()).second) texts.push_back(*text);
      }
    }
    auto answers = AskCompiler(texts, oracle);
    status = answers.status();
    if (answers.ok()) answers_ = std::move(*answers);
  }
  const COracleAnswer& Of(const std::string& text) const { return answers_[places_.at(text)]; }

  Status status;

 private:
  std::map<std::string, size_t> places_;
  std::vector<COracleAnswer> answers_;
};

class ProofPairsTest : public testing::TestWithParam<const char*> {};

TEST_P(ProofPairsTest, NoVerdictIsWrong) {
  auto pairs = ReadProofPairs(SourceDir() + "/prover/test_kit/" + GetParam());
  ASSERT_TRUE(pairs.ok()) << pairs.status().ToString();
  ASSERT_GE(pairs->size(), 600u);
  // One in five, or with TIDEMILL_ALL_PAIRS=1 all.
  if (std::getenv("TIDEMILL_ALL_PAIRS") == nullptr) {
    size_t place = 0;
    std::erase_if(*pairs, [&](const ProofPair&) { return place++ % 5 != 0; });
  }
  const COracleOptions oracle = Oracle();
  const Answers answers(*pairs, oracle);
  ASSERT_TRUE(answers.status.ok()) << answers.status.ToString();
  size_t proved = 0, refuted = 0, unknown = 0;
  std::vector<ProofPair> disputed;
  std::vector<Proof> disputed_proofs;
  for (const ProofPair& pair : *pairs) {
    const auto proof = ProveEquivalent({pair.reference, pair.candidate}, RangeOf(oracle));
    EXPECT_TRUE(proof.ok()) << pair.name << ": " << proof.status().ToString();
    if (!proof.ok()) continue;
    proved += proof->verdict == ProofVerdict::kProved;
    refuted += proof->verdict == ProofVerdict::kRefuted;
    unknown += proof->verdict == ProofVerdict::kUnknown;
    if (proof->verdict == ProofVerdict::kUnknown) {
      std::printf("unknown: %s: %s\n", pair.name.c_str(), proof->Text().c_str());
    }
    const JudgedPair judged{answers.Of(pair.reference), answers.Of(pair.candidate)};
    if (WhatIsWrong(*proof, judged, OracleSight::Of(oracle)) != "") {
      disputed.push_back(pair);
      disputed_proofs.push_back(*proof);
    }
  }
  // What the first sanitizer cannot see: where a pointer goes.
  COracleOptions closer = oracle;
  closer.address = true;
  closer.high = 1;
  for (const Proof& proof : disputed_proofs) {
    for (const ProofArgument& input : proof.inputs) {
      closer.high = std::max(closer.high, static_cast<int>(std::abs(input.value)));
    }
  }
  closer.low = -closer.high;
  const Answers closer_answers(disputed, closer);
  ASSERT_TRUE(closer_answers.status.ok()) << closer_answers.status.ToString();
  for (size_t i = 0; i < disputed.size(); ++i) {
    const JudgedPair judged{closer_answers.Of(disputed[i].reference),
                            closer_answers.Of(disputed[i].candidate)};
    EXPECT_EQ(WhatIsWrong(disputed_proofs[i], judged, OracleSight::Of(closer)), "")
        << disputed[i].name << "\n"
        << disputed[i].candidate;
  }
  std::printf("%zu pairs: %zu proved, %zu refuted, %zu unknown\n", pairs->size(), proved, refuted,
              unknown);
  EXPECT_LE(unknown * 4, pairs->size());
  EXPECT_GE(proved * 4, pairs->size());
  EXPECT_GE(refuted * 4, pairs->size());
}

INSTANTIATE_TEST_SUITE_P(Files, ProofPairsTest, testing::Values("pairs.txt", "pairs_styles.txt"));

// A small part of what proof_soak does, the same every time.
void ExpectNothingWrong(ProofSoakOptions options, size_t pairs) {
  options.oracle.compiler = Oracle().compiler;
  std::string wrong;
  ProofSoak soak(options, [&](const std::string& what) { wrong += what + "\n"; });
  const Status status = soak.RunBatch(pairs);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(soak.counts().wrong, 0u) << wrong;
  EXPECT_LE(soak.counts().UnknownShare(), 0.15);
  EXPECT_LE(soak.counts().outside * 5, 2 * pairs);
  EXPECT_GE(soak.counts().proved * 5, pairs);
  EXPECT_GE(soak.counts().refuted * 8, pairs);
  EXPECT_GT(soak.counts().compared, 300 * pairs);
  std::printf("%s\n", soak.counts().ToText().c_str());
}

TEST(COracle, SeesWhatIsUndefinedAmongHiddenConstants) {
  const std::string text =
      "int f(int a, int b) {\n"
      "  static const int t[2] = {1, -2};\n"
      "  int u[2] = {(INT_MIN * (-1)), '\\n'};\n"
      "  switch (a % 3) { case -1: return t[1]; case 0: return 0x10u + 3L; }\n"
      "  return u[0] & b & 1;\n"
      "}\n";
  COracleOptions options = Oracle();
  options.low = 0;
  options.high = 1;
  const auto plain = AskCompiler(std::vector{text}, options);
  const auto hidden = AskCompiler(std::vector{WithHiddenConstants(text)}, options);
  ASSERT_TRUE(plain.ok() && hidden.ok()) << plain.status().ToString() << hidden.status().ToString();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*plain)[0].status[i], COracleAnswer::kReturned);
    EXPECT_EQ((*hidden)[0].status[i], COracleAnswer::kUndefined);
  }
}

// Each by itself, as a box compiles it.
TEST(OddC, NoVerdictContradictsACompiler) {
  const auto texts = ReadOddTexts(SourceDir() + "/prover/test_kit/odd.txt");
  ASSERT_TRUE(texts.ok()) << texts.status().ToString();
  ASSERT_GE(texts->size(), 55u);
  size_t proved = 0;
  for (const OddText& odd : *texts) {
    bool is_proved = false;
    EXPECT_EQ(OddContradiction(odd.text, {Oracle().compiler}, &is_proved), "") << odd.name << "\n"
                                                                               << odd.text;
    proved += is_proved;
  }
  EXPECT_GE(proved, 7u) << "what is harmless is still read";
}

TEST(RandomC, TheProverIsRightAboutFunctionsOfAllKinds) {
  ProofSoakOptions options;
  options.seed = 7;
  options.formulas_every = 20;
  ExpectNothingWrong(options, 100);
}

TEST(RandomC, TheProverIsRightAboutLoopsAndArrays) {
  ProofSoakOptions options;
  options.seed = 7;
  options.loops_and_arrays = true;
  options.wide_inputs = 0;
  options.oracle.low = -40;
  options.oracle.high = 40;
  ExpectNothingWrong(options, 40);
}

}  // namespace
}  // namespace tidemill
