// The real behaviour of compiled C functions: each of them is run by a compiler's code, with the
// undefined behaviour sanitizer, on every pair of ints of a range and on further pairs. What the
// prover says is measured against it.
//
//   questions -> one C file -> compiler -> one program -> an answer for each question
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

using IntPair = std::array<int, 2>;

struct COracleOptions {
  std::string compiler = "clang";  // or gcc, whose sanitizer sees less
  bool address = false;  // with the address sanitizer as well: it sees where pointers go, slowly
  int low = -40;
  int high = 40;
  std::string shared = {};  // C text that all questions use, compiled once
  // Functions that one process runs. With more than one, a function that writes where it must not
  // may spoil the answers about others: whoever sees something wrong should ask again for it alone.
  size_t functions_a_process = 1;
};

// A text that defines `f` of two ints, and whatever it likes besides.
struct COracleQuestion {
  std::string text;
  std::vector<IntPair> more;  // inputs beside those of the range
};

// The result of `f` on each input: those of the range, the first argument turning slowest, then
// `more`.
struct COracleAnswer {
  enum Status : uint8_t { kReturned, kUndefined, kTooLong, kCrashed };
  int low = 0;
  int high = 0;
  std::vector<IntPair> more;
  std::vector<uint8_t> status;
  std::vector<int64_t> value;

  IntPair Input(size_t index) const;
  // Where the input is; nothing: it was not asked.
  std::optional<size_t> Find(int64_t a, int64_t b) const;
  // Takes over what another compiler's sanitizer saw on the same inputs.
  void AddUndefined(const COracleAnswer& other);
  size_t InRange() const;            // how many inputs the range has
  std::string Text(size_t i) const;  // "f(3, 4) gave 7 (status 0)"
};

// The same text with constants that a compiler cannot fold: every number and every limit of a type
// is added to a variable that is 0. Sanitizers do not see what happens among constants (clang also
// runs both arms of a choice between them). Case labels, array sizes and static tables stay.
std::string WithHiddenConstants(const std::string& text);

// One answer for each question. All are compiled into one program. A failure of the compiler says
// which text it could not compile.
Result<std::vector<COracleAnswer>> AskCompiler(const std::vector<COracleQuestion>& questions,
                                               const COracleOptions& options);
Result<std::vector<COracleAnswer>> AskCompiler(const std::vector<std::string>& texts,
                                               const COracleOptions& options);

}  // namespace tidemill
