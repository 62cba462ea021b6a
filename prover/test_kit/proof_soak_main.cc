// proof_soak: random C functions, each run by the prover's machine and by a compiler's code with
// the undefined behaviour sanitizer, and each pair of them judged by the prover. Exit status 1: a
// result or a verdict was wrong (it is printed), or more than 15 % were unknown.
//
//   proof_soak --functions 1000000 --progress fuzz.json       again with the same file: goes on
//   proof_soak --loops-and-arrays --functions 20000
//   proof_soak --odd --seconds 300 --seed $RANDOM             texts that are easily misread
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "core/files.h"
#include "prover/test_kit/odd_c.h"
#include "prover/test_kit/proof_soak.h"

namespace tidemill {
namespace {

constexpr double kUnknownShareMax = 0.15;
constexpr uint64_t kWrongMax = 20;

struct Soak {
  uint64_t functions = 10'000;
  uint64_t first = 0;
  uint64_t seconds = 0;
  std::string progress;
  bool odd = false;
  ProofSoakOptions options;

  // Each text is compiled by itself, with every compiler of the two that is there.
  int RunOdd() const {
    std::vector<std::string> compilers;
    for (const char* name : {"gcc", "clang-16"}) {
      const std::string look = "command -v " + std::string(name) + " > /dev/null";
      if (std::system(look.c_str()) == 0) compilers.push_back(name);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    uint64_t texts = 0, proofs = 0, wrong = 0;
    for (; texts < functions && wrong < kWrongMax &&
           (seconds == 0 || std::chrono::steady_clock::now() < end);
         ++texts) {
      const OddText text = DrawOddText(Random(options.seed).Split(first + texts));
      bool proved = false;
      const std::string what = OddContradiction(text.text, compilers, &proved);
      proofs += proved;
      if (what.empty()) continue;
      ++wrong;
      std::printf("WRONG: text %llu: %s\n%s\n", static_cast<unsigned long long>(first + texts),
                  what.c_str(), text.text.c_str());
    }
    std::printf("seed %llu: %llu odd texts, %llu proved, %llu wrong, by %zu compilers\n",
                static_cast<unsigned long long>(options.seed),
                static_cast<unsigned long long>(texts), static_cast<unsigned long long>(proofs),
                static_cast<unsigned long long>(wrong), compilers.size());
    return wrong == 0 ? 0 : 1;
  }

  int Run() {
    if (odd) return RunOdd();
    if (options.loops_and_arrays) {
      options.oracle.low = -40;
      options.oracle.high = 40;
      options.wide_inputs = 0;
      options.batch = std::min<size_t>(options.batch, 200);
    }
    ProofSoak soak(options, [](const std::string& what) {
      std::printf("%s\n", what.c_str());
      std::fflush(stdout);
    });
    ProofSoakCounts& counts = soak.counts();
    counts.drawn = first;
    if (!progress.empty() && std::filesystem::exists(progress)) {
      const auto text = ReadFileBounded(progress, 1 << 16);
      auto before = text.ok() ? ProofSoakCounts::FromJson(*text) : text.status();
      if (!before.ok()) return Fail(before.status());
      counts = *before;
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (counts.pairs * 2 < functions && counts.wrong < kWrongMax &&
           (seconds == 0 || std::chrono::steady_clock::now() < end)) {
      const uint64_t left = (functions - counts.pairs * 2 + 1) / 2;
      const Status status = soak.RunBatch(std::min<uint64_t>(left, options.batch));
      if (!status.ok()) return Fail(status);
      if (progress.empty()) continue;
      const Status kept = WriteFileAtomically(progress, counts.ToJson() + "\n");
      if (!kept.ok()) return Fail(kept);
    }
    std::printf("%s\n", counts.ToText().c_str());
    return counts.wrong == 0 && counts.UnknownShare() <= kUnknownShareMax ? 0 : 1;
  }

  static int Fail(const Status& status) {
    std::printf("%s\n", status.message().c_str());
    return 1;
  }
};

}  // namespace
}  // namespace tidemill

int main(int argc, char** argv) {
  tidemill::Soak soak;
  soak.options.oracle.compiler = "clang-16";
  CLI::App app{"Random C functions against a compiler", "proof_soak"};
  app.add_option("--functions", soak.functions, "How many functions")->capture_default_str();
  app.add_option("--seconds", soak.seconds, "End after this time; 0: never")->capture_default_str();
  app.add_option("--seed", soak.options.seed, "Of the functions")->capture_default_str();
  app.add_option("--first", soak.first, "Number of the first pair")->capture_default_str();
  app.add_option("--progress", soak.progress, "File of the counts; if it is there, go on from it");
  app.add_option("--batch", soak.options.batch, "Pairs compiled at a time")->capture_default_str();
  app.add_option("--compiler", soak.options.oracle.compiler, "gcc or clang")->capture_default_str();
  app.add_option("--formulas-every", soak.options.formulas_every,
                 "Let normal forms and Z3 alone decide every so many pairs; 0: none")
      ->capture_default_str();
  app.add_flag("--loops-and-arrays", soak.options.loops_and_arrays,
               "Functions with loops and arrays, defined on -40..40, run on all of it");
  app.add_flag("--odd", soak.odd, "Texts with attributes, linkage, continued lines and the like");
  CLI11_PARSE(app, argc, argv);
  return soak.Run();
}
