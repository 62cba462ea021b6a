// Texts that are easily misread: attributes, linkage, continued lines, redefined names. A compiler
// takes each by itself, as a box does, links it with a main and runs it; that decides.
//
//   text -> prover, and compiler -> linker -> values -> judgement
#pragma once

#include <string>
#include <vector>

#include "core/random.h"
#include "core/status.h"

namespace tidemill {

struct OddText {
  std::string name;
  std::string text;
};

// The texts of a file: "==== name" begins one.
Result<std::vector<OddText>> ReadOddTexts(const std::string& path);

// A right function with a few oddities, some of which change what it is.
OddText DrawOddText(Random random);

// The reference for every text: f(a, b) = a * 2 + b.
extern const char kOddReference[];

// How the prover's verdict and its word on the grammar contradict each of the compilers; empty:
// they do not. A proof is wrong if a compiler refuses the text, or its program gives another value.
std::string OddContradiction(const std::string& text, const std::vector<std::string>& compilers,
                             bool* proved);

}  // namespace tidemill
