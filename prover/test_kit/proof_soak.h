// Random C functions by the thousand: what the prover says of them, against what a compiler's code
// does under the undefined behaviour sanitizer.
//
//   seed -> pairs -> verdicts, and one program of all functions -> its answers -> judgement
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/status.h"
#include "prover/test_kit/c_oracle.h"
#include "prover/test_kit/judgement.h"
#include "prover/test_kit/random_c.h"

namespace tidemill {

struct ProofSoakOptions {
  uint64_t seed = 1;
  size_t batch = 500;             // pairs in one program
  bool loops_and_arrays = false;  // every function has both, and the reference is defined
  uint64_t formulas_every = 0;    // every so many pairs normal forms and Z3 decide alone as well
  size_t wide_inputs = 24;        // beside those of the range: of any size
  COracleOptions oracle{.low = -7, .high = 7, .functions_a_process = 50};
};

// Everything seen so far.
struct ProofSoakCounts {
  uint64_t pairs = 0;
  uint64_t drawn = 0;  // pairs made, those whose reference is undefined included
  uint64_t proved = 0, refuted = 0, unknown = 0;
  uint64_t no_reference = 0;  // unknown: the reference is undefined, or the order decides
  uint64_t wide_proved = 0, wide_refuted = 0;        // over all ints, by probes and normal forms
  uint64_t formula_proved = 0, formula_refuted = 0;  // by normal forms and Z3 alone
  uint64_t formula_unknown = 0;
  uint64_t outside = 0;    // functions outside the subset
  uint64_t compared = 0;   // inputs on which a function's result was compared
  uint64_t undefined = 0;  // of them those on which it is undefined
  uint64_t skipped = 0;    // took too long, or hang on what a sanitizer cannot see
  uint64_t disputed = 0;   // only one of two compilers contradicts the prover
  uint64_t wrong = 0;

  double UnknownShare() const;
  std::string ToText() const;
  std::string ToJson() const;
  static Result<ProofSoakCounts> FromJson(const std::string& text);
};

class ProofSoak {
 public:
  using Report = std::function<void(const std::string&)>;
  // `report` gets what is wrong or disputed, with both texts.
  ProofSoak(const ProofSoakOptions& options, Report report);

  // Pairs from the one numbered counts().drawn on. Not ok: the compiler failed.
  Status RunBatch(size_t pairs);

  ProofSoakCounts& counts() { return counts_; }

 private:
  struct Pair {
    RandomC texts;  // without the helpers
    Proof proof;
    Proof wide;
    Proof formulas;
    std::vector<IntPair> more;
  };
  Pair Draw();
  Result<Proof> Prove(const RandomC& texts, const ProofOptions& options) const;
  ProofOptions InRange() const;
  Status Decide(Pair& pair, bool with_formulas);
  void Count(const Pair& pair, const JudgedPair& answers);
  std::string Against(const Pair& pair, const JudgedPair& answers, const OracleSight& sight,
                      bool counts);
  void Judge(const Pair& pair, const JudgedPair& answers);
  void Tell(const std::string& what, const Pair& pair);

  const ProofSoakOptions options_;
  const Report report_;
  ProofSoakCounts counts_;
};

}  // namespace tidemill
