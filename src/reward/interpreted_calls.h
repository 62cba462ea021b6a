// Tests of one C function, run by the verifiers' machine instead of a box.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

// The output of these tests' program for each case. Nothing, where a box might say something
// else: tests that do not simply call the function, an answer with more than the function in it,
// calls, directives or names a compiler may know, and whatever is undefined or does not end soon.
// Thread-safe.
std::optional<std::vector<std::string>> InterpretCalls(const v1::Grading& grading,
                                                       const std::string& source);

}  // namespace tidemill
