// Python's literals as canonical texts: values that are equal in Python have equal texts. The other
// side, which writes the same for values, is the harness of Python gradings (docs/tools.md).
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// "[1, 'a', 2.5]" -> `[i1,"a",f4004000000000000]`. Numbers, strings, bytes, None, True, False,
// lists, tuples, sets and dictionaries of them. kInvalid: anything else, with where it stops being
// one.
Result<std::string> CanonicalLiteral(std::string_view python);

// "assert f([1]) == 2" as the expression whose value counts, and that value.
struct PythonAssertion {
  std::string expression;  // "f([1])"
  std::string literal;     // "2", as written
  std::string expected;    // canonical
};
// kInvalid: not an assertion of this form, and why.
Result<PythonAssertion> ParseAssertion(std::string_view statement);

}  // namespace tidemill
