// What a verdict of the prover costs on answers to the built-in tasks, beside what the same answer
// costs in a box.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tools/box/box_host.h"

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

// The parts of it. CPU time of this thread so far.
double ThreadCpuMs();
// As the reward loop asks it about an answer of one file.
std::string ProofQuestionFor(const v1::Grading& grading, const std::string& answer);
// CPU time of compiling and running the answer on its hidden tests; without the box's own start.
Result<double> BoxCpuMs(BoxHost& host, const v1::Grading& grading, const std::string& answer);
// The value below which this share of them lies; not empty. Reorders them.
double ShareAt(std::vector<double>& values, double share);

}  // namespace tidemill
