// The inputs a proof is about: one closed interval for each parameter of the function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prover/c_ast.h"

namespace tidemill {

struct InputInterval {
  std::string name;
  CIntType type;
  // Both canonical; of an unsigned 64-bit type as unsigned numbers.
  int64_t low = 0;
  int64_t high = 0;

  // How many values it has, or 2^64 - 1 where there are 2^64.
  uint64_t Count() const {
    const uint64_t less_one = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    return less_one == ~uint64_t{0} ? less_one : less_one + 1;
  }
  bool Holds(int64_t value) const {
    return static_cast<uint64_t>(value) - static_cast<uint64_t>(low) <=
           static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  }
};

using InputSpace = std::vector<InputInterval>;
using Input = std::vector<int64_t>;

// How many inputs there are; at most 2^64 - 1.
uint64_t CountInputs(const InputSpace& space);

// To the next input in order; false: there is none.
bool NextInput(const InputSpace& space, Input& input);

// Inputs worth trying first, at most `count` of them: combinations of small values and of the ends
// of the intervals, then values drawn at random, the same every time.
std::vector<Input> ProbeInputs(const InputSpace& space, size_t count);

}  // namespace tidemill
