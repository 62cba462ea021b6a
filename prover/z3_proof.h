// Equivalence of two functions as a question for Z3: bit-vectors, with loops unrolled.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "prover/c_ast.h"
#include "prover/input_space.h"
#include "prover/prover.h"

namespace tidemill {

struct Z3Answer {
  enum class Kind : uint8_t { kProved, kInput, kUnknown };
  Kind kind = Kind::kUnknown;
  // kInput: where something is wrong, if the formulas are right: to be tried. If that shows
  // nothing, `defined` ones are asked for: where the reference has a result and no loop goes on too
  // long.
  Input input;
  std::string why;  // kUnknown
};

// Where the two differ, or one of them is undefined or goes on longer than it was followed. With
// `defined`: where the reference is defined, both were followed to their end, and the candidate
// differs or is undefined.
Z3Answer AskZ3(const CProgram& reference, const CProgram& candidate, const InputSpace& space,
               const ProofOptions& options, bool defined);

}  // namespace tidemill
