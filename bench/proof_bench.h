// The cost of a verdict of the prover on answers to the built-in tasks, beside what the same answer
// costs in a box.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tidemill {

struct ProofBenchOptions {
  uint64_t problems = 1000;  // each with a right answer, a right one in other words and slips
  uint64_t boxed = 20;       // answers that are also run in a box
  uint64_t seed = 1;
};

struct ProofBenchReport {
  uint64_t answers = 0;
  uint64_t proved = 0;
  uint64_t refuted = 0;
  uint64_t unknown = 0;
  uint64_t wrong = 0;    // verdicts that the answer's value on the inputs contradicts
  double median_ms = 0;  // CPU time a verdict, reading both texts included
  double percentile99_ms = 0;
  double mean_ms = 0;
  double box_ms = 0;        // CPU time of the program in the box alone, median
  double box_to_proof = 0;  // box_ms / mean_ms

  // Whether the bounds hold: nothing wrong, 98 % decided, 0.1 ms, 5 ms, 50 times cheaper.
  bool Holds() const;
  std::string ToText() const;
  std::string ToJson() const;  // one object
};

Result<ProofBenchReport> RunProofBench(const ProofBenchOptions& options);

}  // namespace tidemill
