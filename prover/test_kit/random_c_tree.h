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
    kWithin,  // an index that must stay in bounds: parts[0] modulo `word`
    kCall,
    kStep,
    kSet,
    kComma  //
  } kind = kLeaf;
  std::string word;
  std::vector<RandomPiece> parts;
};

struct RandomLine {
  enum Kind {
    kDeclare,
    kAssign,
    kIf,
    kFor,
    kDown,  // a for that counts down
    kWhile,
    kDo,
    kSwitch,
    kBreak,
    kContinue,
    kReturn,
    kCallOnly  // an expression for its effect
  } kind;
  std::string word;    // a variable, or a type and a name
  std::string update;  // "=", "+=", ..; of a loop what it adds
  std::vector<RandomPiece> parts;
  std::vector<std::vector<RandomLine>> bodies;
};

// The body of a function of the ints a and b; with `loops_and_arrays` one that fills an array and
// reads it, both in loops.
std::vector<RandomLine> DrawRandomBody(Random random, bool loops_and_arrays);

}  // namespace tidemill
