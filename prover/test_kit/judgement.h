// Whether what the prover says of two functions agrees with what a compiler's code did.
#pragma once

#include <string>

#include "prover/prover.h"
#include "prover/test_kit/c_oracle.h"

namespace tidemill {

// The blind spots of a compiler's sanitizer.
struct OracleSight {
  // gcc computes (short)(x * y) without checks where it needs only the lower bits.
  bool sees_overflow = true;
  static OracleSight Of(const COracleOptions& options) {
    return {.sees_overflow = options.compiler.find("clang") != std::string::npos};
  }
};

// Empty: the verdict is right, or unknown. Else what is wrong with it. A proof is held against
// every input that was asked, in the range if `in_range`; a counterexample against the input it
// names.
struct JudgedPair {
  const COracleAnswer& reference;
  const COracleAnswer& candidate;
};
std::string WhatIsWrong(const Proof& proof, const JudgedPair& answers, const OracleSight& sight,
                        bool in_range = true);

// Runs the function on every input that was asked and compares each result.
struct RunComparison {
  std::string difference;   // empty: the same, as far as the sanitizer can see
  bool outside = false;     // C outside the subset: nothing was compared
  uint64_t compared = 0;    // inputs on which both results were seen
  uint64_t undefined = 0;   // of them undefined
  uint64_t unfinished = 0;  // inputs on which the machine did not come to an end
  uint64_t skipped = 0;     // inputs that took too long or that the sanitizer cannot judge
};
RunComparison CompareRuns(const std::string& text, const COracleAnswer& answer,
                          const OracleSight& sight);

}  // namespace tidemill
