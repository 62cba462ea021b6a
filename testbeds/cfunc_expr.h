// The grammar behind the built-in task family of small C functions: expressions of two ints, drawn
// from a seed, written as C and evaluated exactly as a C compiler would. Draw(level, random) ->
// Expr -> Text() for people and compilers, Eval() for expected outputs, BehaviourOf() for telling
// two functions apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"

namespace tidemill {

// One expression. Operators: 'a' and 'b' the parameters, 'n' a constant, '+', '-', '*' with two
// operands,
// '?' with four: in "x<y?p:q" they are x, y, p, q.
struct Expr {
  char op = 'n';
  int value = 0;  // for 'n'
  std::vector<Expr> operands;

  bool operator==(const Expr&) const = default;
};

// Levels of difficulty: 1 one operator; 2 two; 3 a comparison that chooses between parameters and
// constants; 4 a comparison of which one side is computed; 5 three operators.
inline constexpr int kCfuncLevelMin = 1;
inline constexpr int kCfuncLevelMax = 5;

// An expression of the level. Never one with an operator that does nothing (x+0, 1*x, x-x) or with
// one whose operands are constants only. Two draws may behave alike; see BehaviourOf.
Expr DrawExpr(int level, Random& random);

// C source with as few parentheses as C allows and no white space: "a*(b+2)", "a<3?b:a+b".
std::string ExprText(const Expr& expr);

// Its value; for |a| and |b| up to kCfuncProbeBound no expression of the grammar leaves the range
// of int.
int EvalExpr(const Expr& expr, int a, int b);

// A function's results on 1,000 fixed inputs, as a hash. Functions with different hashes differ on
// one of these inputs; with the same hash they are taken for the same function.
inline constexpr int kCfuncProbeCount = 1000;
inline constexpr int kCfuncProbeBound = 20;
struct ProbeInput {
  int a;
  int b;
};
const std::vector<ProbeInput>& CfuncProbes();
uint64_t BehaviourOf(const Expr& expr);

// The same expression with one operator, operand or constant exchanged for another of the grammar:
// what a careless author would have written. May behave like the original.
Expr MutateExpr(const Expr& expr, Random& random);

}  // namespace tidemill
