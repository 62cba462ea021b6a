// The pairs of pairs.txt, expanded.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct ProofPair {
  std::string name;  // "gcd, form 2, change 3"
  std::string reference;
  std::string candidate;
};

// kInvalid names the line that is wrong.
Result<std::vector<ProofPair>> ReadProofPairs(const std::string& path);

}  // namespace tidemill
