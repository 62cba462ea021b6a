// Whether two C functions do the same on every input of a range. The cheapest way that decides is
// taken: a few inputs are tried, then all of them where they are few enough, then the functions'
// algebraic normal forms are compared, then Z3 is asked.
//
//   reference, candidate, range -> ProveEquivalent -> proved | refuted by an input | unknown, and
//   why
//
// This header is all that other folders see of prover/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

// The behaviour of one of the functions on the input of a counterexample.
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

// The most text that is read; a longer one is kUnavailable.
inline constexpr size_t kCTextMax = size_t{256} << 10;

// Not ok: no compiler takes the text for C, because a word stands where the grammar has no place
// for it. What compilers may disagree about (extensions, types, names of a library) is ok here.
Status WhyNoC(std::string_view text, std::string_view entry);

// Names of the functions that have a body in the text, in order. kInvalid: the text is no C;
// kUnavailable: C outside the subset.
Result<std::vector<std::string>> FunctionsOfC(std::string_view text);

// A function that is run without a compiler and without a box: the machine can only compute, within
// bounds that are counts.
class InterpretedC {
 public:
  // Fails like FunctionsOfC, and with kInvalid where the text has no such function.
  static Result<InterpretedC> Read(std::string_view text, std::string_view function);
  InterpretedC(InterpretedC&&) noexcept;
  InterpretedC& operator=(InterpretedC&&) noexcept;
  ~InterpretedC();

  // The text is this function alone, which takes `ints` ints and gives one, and says nothing that
  // a header, a library or another compiler could mean otherwise.
  bool IsPlain(size_t ints) const;
  // None: C does not define a result, it depends on what was never written, or the steps ran out.
  std::optional<int64_t> Call(std::span<const int64_t> inputs, uint64_t steps_max);

 private:
  struct Insides;
  explicit InterpretedC(std::unique_ptr<Insides> insides);
  std::unique_ptr<Insides> insides_;
};

}  // namespace tidemill
