#include "prover/input_trial.h"

#include <algorithm>

namespace tidemill {
namespace {

// Once a proof is out of reach, a difference is still looked for, with less patience.
constexpr uint64_t kOpenInputStepsMax = 50'000;
constexpr uint64_t kOpenStepsMax = 100'000'000;
constexpr uint64_t kRepeatStepsMax = 200'000;

std::string WhyOpen(const CRun& run, const char* who) {
  const std::string name = std::string("the ") + who;
  switch (run.end) {
    case CRun::End::kSteps:
      return name + " did not end within " + std::to_string(run.steps) + " steps";
    case CRun::End::kDepth:
      return name + " calls itself too deep or needs too much memory";
    case CRun::End::kUnsupported:
      return name + " does something that this prover does not follow";
    default:
      return name + " reads an array's element that has no value";
  }
}

}  // namespace

InputTrial::InputTrial(const CCode& reference, const CCode& candidate, CIntType result,
                       const ProofOptions& options)
    : reference_(reference),
      candidate_(candidate),
      result_(result),
      input_steps_max_(options.input_steps_max),
      steps_max_(options.steps_max) {}

CRun InputTrial::Run(CMachine& machine, const Input& input, int64_t fill) {
  CRun run = machine.Run(input, input_steps_max_, fill);
  steps_ += run.steps;
  return run;
}

ProofOutcome InputTrial::Outcome(const CRun& run) const {
  ProofOutcome outcome;
  outcome.is_unsigned = result_.bits == 64 && !result_.is_signed;
  outcome.returns = run.end == CRun::End::kReturned;
  outcome.value = run.value;
  if (run.end == CRun::End::kUndefined) {
    outcome.undefined =
        "line " + std::to_string(run.line) + ": " + std::string(UndefinedText(run.undefined));
  }
  return outcome;
}

bool InputTrial::KeepOpen(const Input& input, std::string why) {
  if (!open_) {
    open_ = Open{input, std::move(why)};
    input_steps_max_ = std::min(input_steps_max_, kOpenInputStepsMax);
    steps_max_ = std::min(steps_max_, steps_ + kOpenStepsMax);
  }
  return true;
}

bool InputTrial::Refute(const CRun& run) {
  candidate_outcome_ = Outcome(run);
  return false;
}

// The candidate read an element that has no value. Only a result that depends on what it is given
// instead says something.
bool InputTrial::TryUnset(const Input& input, int64_t expected) {
  for (const int64_t fill : {0, 1}) {
    const CRun run = Run(candidate_, input, fill);
    if (run.end == CRun::End::kReturned && run.value == expected) continue;
    if (run.end != CRun::End::kReturned && run.end != CRun::End::kUndefined) break;
    candidate_outcome_ = Outcome(run);
    candidate_outcome_.returns = false;
    candidate_outcome_.undefined = std::string(UndefinedText(CUndefined::kUninitialised)) +
                                   ": the result depends on an array's element that has none";
    return false;
  }
  return KeepOpen(input, "the candidate reads an array's element that has no value");
}

bool InputTrial::Try(const Input& input) {
  ++inputs_;
  const CRun expected = Run(reference_, input);
  if (expected.end == CRun::End::kUndefined) {
    return KeepOpen(input, "the reference is undefined (" + Outcome(expected).undefined + ")");
  }
  if (expected.end != CRun::End::kReturned || expected.read_unset) {
    return KeepOpen(input, WhyOpen(expected, "reference"));
  }
  const CRun got = Run(candidate_, input);
  if (got.end == CRun::End::kReturned && !got.read_unset && got.value == expected.value)
    return true;
  reference_outcome_ = Outcome(expected);
  if (got.read_unset) return TryUnset(input, expected.value);
  if (got.end == CRun::End::kReturned || got.end == CRun::End::kUndefined) return Refute(got);
  if (got.end == CRun::End::kSteps && candidate_.Repeats(input, kRepeatStepsMax)) {
    candidate_outcome_ = Outcome(got);
    candidate_outcome_.undefined = "it never ends: the same state comes again";
    return false;
  }
  return KeepOpen(input, WhyOpen(got, "candidate"));
}

}  // namespace tidemill
