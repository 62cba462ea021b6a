// Random C functions of two ints with loops, arrays, switches, helpers and every integer type;
// written from a seed, so that any of them can be made again.
#pragma once

#include <string>

#include "core/random.h"

namespace tidemill {

// A function as it was first written, and written again: `changed` times an operator, a constant or
// a comparison of it is another one, and the rest is said in other words that mean the same.
struct RandomC {
  std::string reference;
  std::string candidate;
};

struct RandomCOptions {
  int changed = 0;
  bool loops_and_arrays = false;  // every function has a loop, and an array that it fills and reads
};

// The texts define `f` alone. RandomCHelpers() must stand before them.
RandomC DrawRandomC(Random random, const RandomCOptions& options);
const std::string& RandomCHelpers();

}  // namespace tidemill
