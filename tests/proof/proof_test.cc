// Every verdict is compared with what a compiler's code does on every input.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "reward/verifiers/equivalence.h"
#include "tests/proof/judgement.h"
#include "tests/proof/proof_pairs.h"
#include "tests/proof/random_c.h"

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

TEST(ProofPairs, NoVerdictIsWrong) {
  auto pairs = ReadProofPairs(TIDEMILL_SOURCE_DIR "/tests/proof/pairs.txt");
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
    ASSERT_TRUE(proof.ok()) << pair.name << ": " << proof.status().ToString();
    proved += proof->verdict == ProofVerdict::kProved;
    refuted += proof->verdict == ProofVerdict::kRefuted;
    unknown += proof->verdict == ProofVerdict::kUnknown;
    if (WhatIsWrong(*proof, answers.Of(pair.reference), answers.Of(pair.candidate), oracle) != "") {
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
    EXPECT_EQ(WhatIsWrong(disputed_proofs[i], closer_answers.Of(disputed[i].reference),
                          closer_answers.Of(disputed[i].candidate), closer),
              "")
        << disputed[i].name << "\n"
        << disputed[i].candidate;
  }
  std::printf("%zu pairs: %zu proved, %zu refuted, %zu unknown\n", pairs->size(), proved, refuted,
              unknown);
  EXPECT_LE(unknown * 4, pairs->size());
  EXPECT_GE(proved * 4, pairs->size());
  EXPECT_GE(refuted * 4, pairs->size());
}

// What the machine that the prover rests on says of random functions.
TEST(RandomC, TheMachineDoesWhatACompilersCodeDoes) {
  COracleOptions oracle = Oracle();
  oracle.low = -12;
  oracle.high = 12;
  std::vector<RandomC> drawn;
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 60; ++i) {
    drawn.push_back(DrawRandomC(Random(7).Split(i), 1));
    texts.push_back(drawn.back().reference);
    texts.push_back(drawn.back().candidate);
  }
  const auto answers = AskCompiler(texts, oracle);
  ASSERT_TRUE(answers.ok()) << answers.status().ToString();
  size_t beyond = 0;  // functions that the front end does not take
  for (size_t i = 0; i < texts.size(); ++i) {
    bool outside = false;
    EXPECT_EQ(CompareRuns(texts[i], (*answers)[i], oracle, outside), "") << texts[i];
    beyond += outside ? 1 : 0;
  }
  EXPECT_LE(beyond * 10, texts.size());
  for (size_t i = 0; i < drawn.size(); ++i) {
    const auto proof = ProveEquivalent({drawn[i].reference, drawn[i].candidate}, RangeOf(oracle));
    ASSERT_TRUE(proof.ok()) << proof.status().ToString();
    EXPECT_EQ(WhatIsWrong(*proof, (*answers)[2 * i], (*answers)[2 * i + 1], oracle), "")
        << drawn[i].reference << drawn[i].candidate;
  }
}

}  // namespace
}  // namespace tidemill
