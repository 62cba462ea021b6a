// The parser's result for a C file: functions as trees of statements and expressions. Every
// expression has its type, and every conversion that C makes silently is a node of its own, so that
// what reads the tree need not know C's rules for them.
//
//   LexC -> PreprocessC -> ParseC -> CProgram -> CompileC (c_machine.h), normal forms, Z3
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "prover/c_type.h"

namespace tidemill {

enum class CExprKind : uint8_t {
  kConstant,  // value
  kVariable,  // its value; `index` says which
  kLoad,      // of the integer at the address args[0]
  kAddress,   // of the variable `index`, an array or one whose address is taken
  kOffset,    // args[0] a pointer, args[1] a long: the pointer moved by that many elements
  kConvert,   // args[0], an integer, to an integer type
  kNegate,
  kBitNot,
  kNot,
  kBinary,      // `op` on two integers of one type; of a shift, the type of the left one
  kCompare,     // `op` on two integers of one type or two pointers
  kDifference,  // of two pointers
  kAnd,
  kOr,
  kChoose,  // args[0] ? args[1] : args[2]
  kComma,
  kAssign,   // args[0] (a variable or a load) = args[1]
  kUpdate,   // args[0] op= args[1], computed in `compute`; a pointer moves by args[1]
  kCall,     // of the function `index`
  kBuiltin,  // `builtin`, on a type of `value` bits
};

struct CExpr {
  CExprKind kind = CExprKind::kConstant;
  COp op = COp::kAdd;
  CBuiltin builtin = CBuiltin::kAbs;
  bool gives_old = false;  // kUpdate: x++ and x--
  bool in_array = false;   // kOffset: args[0] is an array of `value` elements, not just a pointer
  uint16_t depth = 1;      // of the tree
  uint32_t line = 0;
  uint32_t index = 0;
  int64_t value = 0;
  CIntType compute = kCInt;
  CType type;
  std::vector<std::unique_ptr<CExpr>> args;
};

using CExprPtr = std::unique_ptr<CExpr>;

enum class CStatementKind : uint8_t {
  kExpression,  // exprs[0]
  kDeclare,     // variable `index`; `cells` and exprs are its initial values, if `initialised`
  kBlock,       // body
  kIf,          // exprs[0], body[0], perhaps body[1]
  kWhile,       // exprs[0], body[0]
  kDo,          // body[0], exprs[0]
  kFor,     // body[0] the statement, body[1] the initial one; exprs: condition, step (may be null)
  kSwitch,  // exprs[0], body[0]
  kCase,    // `value`: the place a switch goes to
  kDefault,
  kBreak,
  kContinue,
  kReturn,  // exprs[0], if any
};

struct CStatement {
  CStatementKind kind = CStatementKind::kBlock;
  bool initialised = false;
  uint32_t line = 0;
  uint32_t index = 0;
  int64_t value = 0;
  std::vector<CExprPtr> exprs;
  std::vector<uint32_t> cells;  // kDeclare of an array: which element each of exprs is for
  std::vector<std::unique_ptr<CStatement>> body;
};

using CStatementPtr = std::unique_ptr<CStatement>;

struct CVariable {
  std::string name;
  CType type;
  bool is_const = false;
  bool is_register = false;    // has no address
  bool is_static = false;      // of the file, or static in a function: `initial` is its value
  bool address_taken = false;  // lives in memory, as arrays do
  bool may_be_unset = false;   // declared without a value
  uint16_t scope_depth = 0;    // of its block; 0 for parameters and statics
  std::vector<int64_t> initial = {};

  bool in_memory() const { return address_taken || type.is_array(); }
};

struct CFunction {
  std::string name;
  CType result;
  uint32_t parameters = 0;           // the first variables
  std::vector<CVariable> variables;  // of the function
  CStatementPtr body;                // null: not defined, or main
  bool writes_memory = false;        // through a pointer it was given
  uint32_t line = 0;
};

struct CProgram {
  std::vector<CFunction> functions;
  std::vector<CVariable>
      statics;         // variable n of a function with n >= kCStaticBase: statics[n - ..]
  uint32_t entry = 0;  // the function asked for
};

inline constexpr uint32_t kCStaticBase = 1u << 24;

inline const CVariable& VariableOf(const CProgram& program, const CFunction& function,
                                   uint32_t index) {
  return index >= kCStaticBase ? program.statics[index - kCStaticBase] : function.variables[index];
}

// The function `entry`, which other files can call, and all others of the text but main: what is
// not read cannot be known to compile. kInvalid: the text is no C, or has no such function.
// kUnavailable: C outside the subset. Both name the line.
Result<CProgram> ParseC(std::string_view text, std::string_view entry);

// The value of an expression of constants; false: it has none.
bool FoldC(const CExpr& expr, int64_t& value);

// kUnavailable where an expression of the function has a side effect whose order against another
// access of the same variable C leaves open. Needs writes_memory of what the function calls.
Status CheckSequence(const CProgram& program, const CFunction& function);

// Sets writes_memory of every function.
void FindMemoryWrites(CProgram& program);

}  // namespace tidemill
