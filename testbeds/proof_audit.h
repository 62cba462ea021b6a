// The prover's verdicts on a policy's answers, against a compiler's code in a box on every
// input of the range. Each distinct answer is looked at once.
//
//   answers -> ProveAnswer, boxes of many answers each -> confusion matrix, disagreements explained
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "tools/box/box_host.h"

namespace tidemill {

struct PolicyAnswer {
  const v1::Grading* grading = nullptr;  // with a specification; tests that call f (TestsCallF)
  std::string text;
  uint64_t times = 1;  // how often the policy gave it to this task
};

struct ProofAuditReport {
  // Of all answers, each as often as it was given. [proved, refuted, unknown][alike, different]
  std::array<std::array<uint64_t, 2>, 3> cells{};
  uint64_t answers = 0;
  uint64_t distinct = 0;
  // Of the distinct ones.
  uint64_t counterexamples = 0;
  uint64_t unconfirmed = 0;  // counterexamples that the box does not show
  uint64_t undefined = 0;    // refuted because undefined; a box may show anything
  uint64_t no_c = 0;         // refuted because no compiler takes it
  uint64_t lucky = 0;        // pass the hidden tests, and are refuted by another input
  // Disagreements without a reason: the verdict, the answer and what the box gave.
  uint64_t unexplained = 0;
  std::vector<std::string> shown;
  double median_ms = 0;  // CPU time a verdict, reading both texts included
  double percentile99_ms = 0;
  double mean_ms = 0;
  double box_ms = 0;  // CPU time of an answer in a box of its own, median

  double coverage() const;
  double box_to_proof() const { return mean_ms > 0 ? box_ms / mean_ms : 0; }
  // Nothing unexplained, every counterexample confirmed, 98 % decided.
  bool Holds() const;
  std::string ToText() const;
  std::string ToJson() const;  // one object
};

// kUnavailable: there are no boxes here, or one failed.
Result<ProofAuditReport> AuditProofs(const std::vector<PolicyAnswer>& answers);

// CPU time of this thread so far.
double ThreadCpuMs();
// As the reward loop asks it about an answer of one file.
std::string ProofQuestionFor(const v1::Grading& grading, const std::string& answer);
// CPU time of compiling and running the answer on its hidden tests; without the box's own start.
Result<double> BoxCpuMs(BoxHost& host, const v1::Grading& grading, const std::string& answer);
// The value below which this share of them lies; not empty. Reorders them.
double ShareAt(std::vector<double>& values, double share);

}  // namespace tidemill
