// Both functions on one input after another: what the two do is compared, and what stands in the
// way of a proof is kept.
#pragma once

#include <cstdint>
#include <optional>

#include "prover/c_machine.h"
#include "prover/input_space.h"
#include "prover/prover.h"

namespace tidemill {

class InputTrial {
 public:
  // Borrows all of them.
  InputTrial(const CCode& reference, const CCode& candidate, CIntType result,
             const ProofOptions& options);

  // False: the input refutes the candidate; reference() and candidate() say how.
  bool Try(const Input& input);

  const ProofOutcome& reference() const { return reference_outcome_; }
  const ProofOutcome& candidate() const { return candidate_outcome_; }

  // An input on which neither sameness nor a difference could be seen, and why; the first of them.
  struct Open {
    Input input;
    std::string why;
  };
  const std::optional<Open>& open() const { return open_; }
  uint64_t inputs() const { return inputs_; }
  uint64_t steps() const { return steps_; }
  bool exhausted() const { return steps_ >= steps_max_; }

 private:
  CRun Run(CMachine& machine, const Input& input, int64_t fill = 0);
  bool Refute(const CRun& run);
  bool TryUnset(const Input& input, int64_t expected);
  bool KeepOpen(const Input& input, std::string why);
  ProofOutcome Outcome(const CRun& run) const;

  CMachine reference_;
  CMachine candidate_;
  const CIntType result_;
  uint64_t input_steps_max_;
  uint64_t steps_max_;
  ProofOutcome reference_outcome_;
  ProofOutcome candidate_outcome_;
  std::optional<Open> open_;
  uint64_t inputs_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace tidemill
