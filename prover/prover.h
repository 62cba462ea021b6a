// Whether two C functions do the same on every input of a range. The cheapest way that decides is
// taken: a few inputs are tried, then all of them where they are few enough, then the functions'
// algebraic normal forms are compared, then Z3 is asked.
//
//   reference, candidate, range -> ProveEquivalent -> proved | refuted by an input | unknown, and
//   why
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct ProofOptions {
  std::string function;  // empty: the one function both texts define, or "f"
  // Every parameter lies in low .. high, as far as its type can; without a range, in all of its
  // type.
  bool has_range = false;
  int64_t low = 0;
  int64_t high = 0;
  // Counts, not times: the same texts always get the same verdict.
  uint64_t input_steps_max = 2'000'000;     // of one function on one input
  uint64_t steps_max = 1'000'000'000;       // of both functions on all inputs
  uint64_t inputs_max = uint64_t{1} << 24;  // tried one by one
  uint32_t probes = 200;                    // drawn at random where not all inputs can be tried
  uint32_t unroll = 40;                     // turns of a loop that Z3 is shown
  uint64_t z3_rlimit = 10'000'000;          // Z3's own measure of work; 0: Z3 is not asked
};

enum class ProofVerdict : uint8_t { kProved, kRefuted, kUnknown };
// "proved", "refuted", "unknown"
std::string_view VerdictName(ProofVerdict verdict);

// What one of the functions does on the input of a counterexample.
struct ProofOutcome {
  bool returns = false;
  int64_t value = 0;         // if it returns
  bool is_unsigned = false;  // the value is of an unsigned 64-bit type
  std::string undefined;     // else why not: "line 3: division by zero"
  std::string Text() const;  // "returns 5", "is undefined (line 3: division by zero)"
};

struct ProofArgument {
  std::string name;
  int64_t value = 0;
  bool is_unsigned = false;
  std::string Text() const;  // "a=-3"
};

struct Proof {
  ProofVerdict verdict = ProofVerdict::kUnknown;
  std::string method;  // "probe", "exhaustive", "algebra", "z3": what decided
  std::string function;
  std::string reason;  // unknown, and refuted without an input: why
  // Refuted, and unknown where one input is the reason.
  std::vector<ProofArgument> inputs;
  ProofOutcome reference;
  ProofOutcome candidate;
  uint64_t inputs_tried = 0;
  uint64_t steps = 0;
  // "f(a=3, b=0): the reference returns 5, the candidate is undefined (line 2: division by zero)"
  std::string Text() const;
};

// kInvalid: one of the texts is no C, or lacks the function; `reference.c:3: ..` says which by the
// names given. What is C but cannot be decided is a verdict of kUnknown.
struct ProofTexts {
  std::string_view reference;
  std::string_view candidate;
  std::string reference_name = "reference";
  std::string candidate_name = "candidate";
};
Result<Proof> ProveEquivalent(const ProofTexts& texts, const ProofOptions& options);

}  // namespace tidemill
