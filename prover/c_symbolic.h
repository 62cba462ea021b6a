// A C function as formulas over its parameters: what it returns, when it is undefined, and when a
// loop or a recursion goes on beyond what was unrolled. All paths are followed at once; where they
// meet, every variable becomes a choice between its values. Throws z3::exception.
#pragma once

#include <z3++.h>
#include <cstdint>

#include <optional>
#include <vector>

#include "prover/c_ast.h"

namespace tidemill {

struct SymbolicLimits {
  uint32_t unroll = 40;         // turns of a loop whose end is not known
  uint32_t known_turns = 4096;  // turns of a loop in which every condition is known
  uint32_t recursion = 12;
  uint32_t cells = 64;      // elements of an array
  uint64_t work = 100'000;  // operations in all
};

struct SymbolicResult {
  z3::expr value;
  z3::expr undefined;
  z3::expr unfinished;
};

class SymbolicRun {
 public:
  // Borrows both.
  SymbolicRun(z3::context& context, const CProgram& program, const SymbolicLimits& limits);

  // nullopt: the function does something this part does not follow, or too much of it.
  std::optional<SymbolicResult> Run(const std::vector<z3::expr>& parameters);

 private:
  // The knowledge at one place of the program. `live`: when control comes here.
  struct Cells {
    std::vector<z3::expr> values;
    std::vector<z3::expr> set;
  };
  struct State {
    z3::expr live;
    std::vector<Cells> variables;  // of the function; one cell for a scalar
  };
  // Where control goes from inside a statement.
  struct Exits {
    std::vector<State> breaks;
    std::vector<State> continues;
  };
  struct Returned {
    z3::expr live;
    z3::expr value;
  };
  // A function that is being followed.
  struct Activation {
    const CFunction* function = nullptr;
    Exits* exits = nullptr;
    std::vector<Returned> returned;
  };

  bool Follow(uint32_t function, const std::vector<z3::expr>& arguments, z3::expr& live,
              z3::expr& value);
  State FirstState(const CFunction& function, const std::vector<z3::expr>& arguments,
                   const z3::expr& live);

  // Statements.
  void Do(const CStatement& statement, State& state);
  void DoDeclare(const CStatement& statement, State& state);
  void DoIf(const CStatement& statement, State& state);
  void DoLoop(const CStatement& statement, State& state);
  void DoSwitch(const CStatement& statement, State& state);
  void DoReturn(const CStatement& statement, State& state);
  void ForgetDeclared(const CStatement& statement, State& state);
  bool HoldsCase(const CStatement& statement) const;

  // Expressions.
  z3::expr Value(const CExpr& expr, State& state);
  z3::expr Truth(const CExpr& expr, State& state);
  z3::expr Variable(const CExpr& expr, State& state);
  z3::expr Binary(COp op, CIntType type, const z3::expr& left, const z3::expr& right,
                  CIntType right_type, State& state);
  z3::expr Divide(COp op, CIntType type, const z3::expr& left, const z3::expr& right, State& state);
  z3::expr Shift(COp op, CIntType type, const z3::expr& left, const z3::expr& right,
                 CIntType right_type, State& state);
  z3::expr Logical(const CExpr& expr, State& state);
  z3::expr Choose(const CExpr& expr, State& state);
  z3::expr Assign(const CExpr& expr, State& state);
  z3::expr Update(const CExpr& expr, State& state);
  z3::expr Call(const CExpr& expr, State& state);
  z3::expr Builtin(const CExpr& expr, State& state);
  z3::expr Converted(const z3::expr& value, CIntType from, CIntType to);

  // Variables and arrays. A place is a variable and the number of a cell as 64 bits.
  struct Place {
    uint32_t variable = 0;
    z3::expr cell;
  };
  std::optional<Place> Reach(const CExpr& target, State& state);
  std::optional<z3::expr> CellOf(const CExpr& address, State& state, uint32_t& variable);
  z3::expr Load(const Place& place, State& state, CIntType type);
  void Store(const Place& place, const z3::expr& value, State& state);
  Cells& CellsIn(uint32_t variable, State& state);

  // Formulas.
  z3::expr Number(int64_t value, unsigned bits);
  z3::expr Bit(const z3::expr& condition, CIntType type);  // 1 or 0
  z3::expr Simplified(const z3::expr& formula);
  z3::expr SimplifiedTop(const z3::expr& formula, int depth);
  z3::expr SimplifiedJunction(const z3::expr& same, const z3::expr_vector& args);
  z3::expr SimplifiedEquality(const z3::expr& same, const z3::expr_vector& args);
  void Undefined(const z3::expr& condition, State& state);
  State Merge(std::vector<State> states);

  z3::context& context_;
  const CProgram& program_;
  const SymbolicLimits limits_;
  z3::expr undefined_;
  z3::expr unfinished_;
  std::vector<Cells> statics_;
  Activation* activation_ = nullptr;
  uint32_t depth_ = 0;
  uint64_t work_ = 0;
  bool failed_ = false;
};

}  // namespace tidemill
