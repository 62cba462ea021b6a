// A composed review: correctness, style, performance and security, each in 0..1 with a comment, and
// a second, closer look at what came out low before it counts.
//
//   first look: hidden tests, lint  ->  a sub-score below the threshold?  ->  second look at that
//
// The sub-scores come from tools: correctness from the hidden tests, style and security from the
// linter's findings, performance from the CPU time of the tests. The second look grades again with
// twice the time, and asks the compiler's warnings for its opinion on style and security; both
// looks count (for performance the better one: noise only slows down). An external judge, if there
// is one, gives the sub-scores it names; for its second look it is told which were low and why.
#pragma once

#include "reward/scorer.h"

namespace tidemill {

// kInvalid: a sub-score that does not exist, a weight that is negative, or none above 0.
Result<std::unique_ptr<Scorer>> NewReviewScorer(const RewardConfig& reward);

// Whether a remark is about what an attacker could use: memory, input, formats, commands.
bool IsSecurityFinding(const v1::Diagnostic& finding);

}  // namespace tidemill
