// proof_soak [--functions N] [--seed S] [--compiler gcc|clang] [--batch N]
// [--formulas]: random C functions, each
// run on 41 x 41 inputs by the prover's machine and by a compiler's code with the undefined
// behaviour sanitizer, and each pair of them judged by the prover. Exit status 1: a result or a
// verdict was wrong (it is printed), or more than 15 % were unknown.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "tests/proof/judgement.h"
#include "tests/proof/random_c.h"

namespace tidemill {
namespace {

constexpr double kUnknownShareMax = 0.15;

struct Soak {
  uint64_t functions = 10'000;
  bool formulas = false;
  uint64_t seed = 1;
  size_t batch = 400;
  COracleOptions oracle{.low = -20, .high = 20};
  uint64_t proved = 0, refuted = 0, unknown = 0, no_reference = 0, outside = 0, disputed = 0,
           wrong = 0;

  void Complain(const std::string& what, const RandomC& pair) {
    if (++wrong <= 5) {
      std::printf("WRONG: %s\n--- reference\n%s--- candidate\n%s\n", what.c_str(),
                  pair.reference.c_str(), pair.candidate.c_str());
    }
  }

  // What a compiler's code says against the prover; empty: nothing.
  std::string Against(const RandomC& pair, const Proof& proof, const COracleAnswer& reference,
                      const COracleAnswer& candidate, const COracleOptions& options) {
    for (const auto& [text, answer] :
         {std::pair(&pair.reference, &reference), std::pair(&pair.candidate, &candidate)}) {
      bool none = false;
      const std::string difference = CompareRuns(*text, *answer, options, none);
      outside += none;
      if (!difference.empty()) return difference;
    }
    return WhatIsWrong(proof, reference, candidate, options);
  }

  void Judge(const RandomC& pair, const COracleAnswer& reference, const COracleAnswer& candidate) {
    ProofOptions options;
    options.has_range = true;
    options.low = oracle.low;
    options.high = oracle.high;
    if (formulas) {
      options.inputs_max = options.probes = 0;
      options.z3_rlimit = 300'000;
    }
    const auto proof = ProveEquivalent({pair.reference, pair.candidate}, options);
    if (!proof.ok()) return Complain(proof.status().message(), pair);
    proved += proof->verdict == ProofVerdict::kProved;
    refuted += proof->verdict == ProofVerdict::kRefuted;
    if (proof->verdict == ProofVerdict::kUnknown) {
      const bool is_defined = std::ranges::count(reference.status, COracleAnswer::kReturned) ==
                              static_cast<std::ptrdiff_t>(reference.status.size());
      const bool has_order = proof->reason.find("order of evaluation") == std::string::npos;
      is_defined&& has_order ? ++unknown : ++no_reference;
    }
    const std::string first = Against(pair, *proof, reference, candidate, oracle);
    if (first.empty()) return;
    // Each sanitizer has blind spots (clang: ++t[4], and operands it evaluates early; gcc: overflow
    // that a conversion hides). What both say counts.
    COracleOptions other = oracle;
    other.compiler = oracle.compiler.find("clang") == std::string::npos ? "clang" : "gcc";
    const auto answers = AskCompiler({pair.reference, pair.candidate}, other);
    if (!answers.ok()) return Complain(first + "; " + answers.status().message(), pair);
    const std::string second = Against(pair, *proof, (*answers)[0], (*answers)[1], other);
    if (!second.empty()) return Complain(first + "\n" + second, pair);
    ++disputed;
  }

  int Run() {
    uint64_t done = 0;
    for (; done < functions && wrong == 0;) {
      std::vector<RandomC> pairs;
      std::vector<std::string> texts;
      for (; texts.size() < batch; done += 2) {
        const Random random = Random(seed).Split(done);
        pairs.push_back(DrawRandomC(random, done % 4 == 0 ? 0 : 1));
        texts.push_back(pairs.back().reference);
        texts.push_back(pairs.back().candidate);
      }
      const auto answers = AskCompiler(texts, oracle);
      if (!answers.ok()) {
        std::printf("%s\n", answers.status().message().c_str());
        return 1;
      }
      for (size_t i = 0; i < pairs.size(); ++i) {
        Judge(pairs[i], (*answers)[2 * i], (*answers)[2 * i + 1]);
      }
    }
    const double share = static_cast<double>(unknown) /
                         static_cast<double>(std::max<uint64_t>(proved + refuted + unknown, 1));
    const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%llu functions: %llu pairs proved, %llu refuted, %llu unknown (%.1f %%); %llu unknown "
        "because the reference is undefined or a result depends on the order of evaluation; %llu "
        "functions outside the subset; %llu pairs on which "
        "the compilers disagree; %llu wrong\n",
        number(done), number(proved), number(refuted), number(unknown), 100 * share,
        number(no_reference), number(outside), number(disputed), number(wrong));
    return wrong == 0 && (formulas || share <= kUnknownShareMax) ? 0 : 1;
  }
};

}  // namespace
}  // namespace tidemill

int main(int argc, char** argv) {
  tidemill::Soak soak;
  CLI::App app{"Random C functions against a compiler", "proof_soak"};
  app.add_option("--functions", soak.functions, "How many functions")->capture_default_str();
  app.add_option("--seed", soak.seed, "Of the functions")->capture_default_str();
  app.add_option("--batch", soak.batch, "Functions compiled at a time")->capture_default_str();
  app.add_option("--compiler", soak.oracle.compiler, "gcc or clang")->capture_default_str();
  app.add_flag("--formulas", soak.formulas, "Let normal forms and Z3 decide, not trying");
  CLI11_PARSE(app, argc, argv);
  return soak.Run();
}
