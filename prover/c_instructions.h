// The machine's operations, as handlers for the compiler to put into instructions. In the comments
// r is the frame's registers; p a register with a pointer.
#pragma once

#include "prover/c_machine.h"

namespace tidemill {

struct CInstructions {
  // r[a] = r[b] op r[c], or op imm.
  static CHandler Binary(COp op, CIntType type, bool immediate);
  // Jumps if r[b] op r[c] (or imm) holds; `op` is a comparison.
  static CHandler JumpCompare(COp op, CIntType type, bool immediate);
  // r[a] = r[b] converted; null: any value stays as it is.
  static CHandler Convert(CIntType from, CIntType to);
  // r[a] = -r[b], ~r[b]
  static CHandler Negate(CIntType type);
  static CHandler BitNot(CIntType type);

  using Step = const CInstruction*;
  static Step Const(CMachine& m, Step i);  // r[a] = imm
  static Step Move(CMachine& m, Step i);   // r[a] = r[b]
  static Step Not(CMachine& m, Step i);    // r[a] = !r[b]
  static Step Jump(CMachine& m, Step i);
  static Step JumpIf(CMachine& m, Step i);     // r[a]
  static Step JumpIfNot(CMachine& m, Step i);  // r[a]
  static Step Call(
      CMachine& m,
      Step i);  // function imm; arguments and result from r[a] on; code: the result is not used
  static Step Return(CMachine& m, Step i);       // r[a]
  static Step NoReturn(CMachine& m, Step i);     // undefined, if the caller uses the result
  static Step CheckSet(CMachine& m, Step i);     // undefined unless r[a]
  static Step UnsetObject(CMachine& m, Step i);  // what p[a] points to
  static Step ZeroObject(CMachine& m, Step i);   // what p[a] points to
  static Step Load(CMachine& m, Step i);         // r[a] = p[b][r[c]]
  static Step Store(CMachine& m, Step i);        // p[a][r[b]] = r[c]
  static Step Offset(CMachine& m,
                     Step i);  // r[a] = p[b] + r[c] * imm, within its object or just behind
  static Step OffsetIn(CMachine& m, Step i);    // the same; 0 <= r[c] < jump
  static Step OffsetTo(CMachine& m, Step i);    // the same; 0 <= r[c] <= jump
  static Step RowOf(CMachine& m, Step i);       // the same; all `imm` cells of the element exist
  static Step Difference(CMachine& m, Step i);  // r[a] = (p[b] - p[c]) / imm
  static Step PointerCompare(CMachine& m, Step i);  // r[a] = p[b] op p[c]; the operator is `code`
  static Step Builtin(CMachine& m, Step i);         // r[a] = code(r[b]) on imm bits
  static Step Memset(CMachine& m, Step i);  // p[a], value r[b], r[c] bytes; imm bits an element
  static Step Memcpy(CMachine& m, Step i);  // p[a], p[b], r[c] bytes; imm bits an element
  static Step Unreachable(CMachine& m, Step i);
};

}  // namespace tidemill
