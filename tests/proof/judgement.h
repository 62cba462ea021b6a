// Whether what the prover says of two functions agrees with what a compiler's code did.
#pragma once

#include <string>

#include "reward/verifiers/equivalence.h"
#include "tests/proof/c_oracle.h"

namespace tidemill {

// Empty: the verdict is right, or unknown. Else what is wrong with it.
std::string WhatIsWrong(const Proof& proof, const COracleAnswer& reference,
                        const COracleAnswer& candidate, const COracleOptions& options);

// Runs the function on every input and compares each result. Empty: the same, as far as the
// sanitizer can see. `undecided`: C outside the subset.
std::string CompareRuns(const std::string& text, const COracleAnswer& answer,
                        const COracleOptions& options, bool& undecided);

}  // namespace tidemill
