// Tests that call `int f(int a, int b)` of the one file of an answer: what the built-in family
// "cfunc" is graded by, and what may be interpreted instead of compiled.
#pragma once

#include "proto/tidemill.pb.h"

namespace tidemill {

// Without cases: the answer's file is f.c, and main.c calls it with the two ints of each line.
v1::Grading GradingOfF();

// Whether these are such tests, whoever wrote the task.
bool TestsCallF(const v1::Grading& grading);

}  // namespace tidemill
