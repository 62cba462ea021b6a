// The ways to use experience that `tidemill bench memory` compares.
#pragma once

#include <string>
#include <vector>

#include "memory/case_bank.h"

namespace tidemill {

inline constexpr char kHiddenStatesArm[] = "nearest by hidden states";

struct Arm {
  const char* name;
  Retrieval how = Retrieval::kLexical;
  bool shows = true;      // cases of its bank
  bool retries = false;   // a failed answer is followed by a second one, which is told of it
  bool oracle = false;    // shown a right case of the operation, whatever was experienced
  bool shuffled = false;  // answers and verdicts of the cases are dealt out anew
  bool another = false;   // shown the cases of the next project
  bool failures = true;   // failed answers are kept
};

// Null: there is none of that name.
const Arm* ArmNamed(const std::string& name);

// The names of all arms, in the order of the report.
const std::vector<std::string>& MemoryArms();

}  // namespace tidemill
