// The trees behind random C functions.
#pragma once

#include <string>
#include <vector>

#include "core/random.h"

namespace tidemill {

// A tree that knows how to be written in several ways. `word` is an operator or a leaf's text;
// `slips`: what the operator may be by mistake.
struct RandomPiece {
  enum Kind {
    kLeaf,
    kNumber,
    kBinary,
    kUnary,
    kCast,
    kChoose,
    kIndex,
    kCall,
    kStep,
    kSet,
    kComma  //
  } kind = kLeaf;
  std::string word;
  std::vector<RandomPiece> parts;
};

struct RandomLine {
  enum Kind { kDeclare, kAssign, kIf, kFor, kWhile, kDo, kSwitch, kBreak, kContinue, kReturn } kind;
  std::string word;    // a variable, or a type and a name
  std::string update;  // "=", "+=", ..
  std::vector<RandomPiece> parts;
  std::vector<std::vector<RandomLine>> bodies;
};

// The body of a function of the ints a and b.
std::vector<RandomLine> DrawRandomBody(Random random);

}  // namespace tidemill
