// What compiled C functions really do: each of them is run by a compiler's code, with the undefined
// behaviour sanitizer, on every pair of ints of a range. What the prover says is measured against
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct COracleOptions {
  std::string compiler = "clang";  // or gcc, whose sanitizer sees less
  bool address = false;  // with the address sanitizer as well: it sees where pointers go, slowly
  int low = -40;
  int high = 40;
};

// What a function `f` of two ints did on each input, the first argument turning slowest.
struct COracleAnswer {
  enum Status : uint8_t { kReturned, kUndefined, kTooLong, kCrashed };
  std::vector<uint8_t> status;
  std::vector<int64_t> value;
};

// One answer for each text. All are compiled into one program; a text may define whatever it likes
// besides `f`. A failure of the compiler says which text it could not compile.
Result<std::vector<COracleAnswer>> AskCompiler(const std::vector<std::string>& texts,
                                               const COracleOptions& options);

}  // namespace tidemill
