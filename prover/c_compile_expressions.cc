#include "prover/c_compiler.h"

namespace tidemill {
namespace {

COp Opposite(COp op) {
  switch (op) {
    case COp::kLt:
      return COp::kGe;
    case COp::kLe:
      return COp::kGt;
    case COp::kGt:
      return COp::kLe;
    case COp::kGe:
      return COp::kLt;
    case COp::kEq:
      return COp::kNe;
    default:
      return COp::kEq;
  }
}

}  // namespace

CCompiler::Register CCompiler::Evaluate(const CExpr& expr) {
  if (expr.kind == CExprKind::kVariable && !Variable(expr.index).in_memory() &&
      !Variable(expr.index).may_be_unset) {
    return places_[expr.index].value;
  }
  if (expr.kind == CExprKind::kVariable && !Variable(expr.index).in_memory()) {
    Emit(CInstructions::CheckSet, expr.line, places_[expr.index].is_set);
    return places_[expr.index].value;
  }
  if (expr.kind == CExprKind::kConvert && expr.type.is_int() && expr.args[0]->type.is_int() &&
      CInstructions::Convert(expr.args[0]->type.base, expr.type.base) == nullptr) {
    return Evaluate(*expr.args[0]);
  }
  const Register to = Temporary();
  EvaluateTo(expr, to);
  return to;
}

void CCompiler::EvaluateTo(const CExpr& expr, Register to) {
  int64_t folded = 0;
  if (expr.type.is_int() && FoldC(expr, folded)) {
    Emit(CInstructions::Const, expr.line, to).imm = folded;
    return;
  }
  switch (expr.kind) {
    case CExprKind::kConstant:
      Emit(CInstructions::Const, expr.line, to).imm = expr.value;
      return;
    case CExprKind::kVariable:
      return EvaluateVariable(expr, to);
    case CExprKind::kLoad: {
      const Target target = Reach(*expr.args[0]);
      Emit(CInstructions::Load, expr.line, to, target.pointer, target.moved);
      return;
    }
    case CExprKind::kAddress:
      return EvaluateAddress(expr, to);
    case CExprKind::kOffset:
      return EvaluateOffset(expr, to, false);
    case CExprKind::kConvert:
      if (expr.type.is_void()) return Discard(*expr.args[0]);
      return Convert(expr.args[0]->type.base, expr.type.base, to, Evaluate(*expr.args[0]),
                     expr.line);
    case CExprKind::kNegate:
      Emit(CInstructions::Negate(expr.type.base), expr.line, to, Evaluate(*expr.args[0]));
      return;
    case CExprKind::kBitNot:
      Emit(CInstructions::BitNot(expr.type.base), expr.line, to, Evaluate(*expr.args[0]));
      return;
    case CExprKind::kNot:
      Emit(CInstructions::Not, expr.line, to, Evaluate(*expr.args[0]));
      return;
    case CExprKind::kBinary:
    case CExprKind::kCompare:
    case CExprKind::kDifference:
      return EvaluateBinary(expr, to);
    case CExprKind::kAnd:
    case CExprKind::kOr:
      return EvaluateLogical(expr, to);
    case CExprKind::kChoose:
      return EvaluateChoose(expr, to);
    case CExprKind::kComma:
      Discard(*expr.args[0]);
      return EvaluateTo(*expr.args[1], to);
    case CExprKind::kAssign:
      return EvaluateAssign(expr, to);
    case CExprKind::kUpdate:
      return EvaluateUpdate(expr, to, expr.gives_old);
    case CExprKind::kCall:
      return EvaluateCall(expr, to, expr.type.is_void());
    case CExprKind::kBuiltin:
      return EvaluateBuiltin(expr, to);
  }
}

void CCompiler::EvaluateVariable(const CExpr& expr, Register to) {
  const CVariable& variable = Variable(expr.index);
  if (variable.is_static && variable.is_const) {
    Emit(CInstructions::Const, expr.line, to).imm = variable.initial[0];
  } else if (variable.in_memory()) {
    const Target target = ReachVariable(expr.index, expr.line);
    Emit(CInstructions::Load, expr.line, to, target.pointer, target.moved);
  } else {
    Emit(CInstructions::Move, expr.line, to, Evaluate(expr));
  }
}

// For its effects alone.
void CCompiler::Discard(const CExpr& expr) {
  if (expr.kind == CExprKind::kVariable) return;  // (void)x
  const bool writes = expr.kind == CExprKind::kAssign || expr.kind == CExprKind::kUpdate;
  if (writes && expr.args[0]->kind == CExprKind::kVariable &&
      !Variable(expr.args[0]->index).in_memory()) {
    const Register own = places_[expr.args[0]->index].value;
    expr.kind == CExprKind::kAssign ? EvaluateAssign(expr, own) : EvaluateUpdate(expr, own, false);
  } else if (expr.kind == CExprKind::kComma) {
    Discard(*expr.args[0]);
    Discard(*expr.args[1]);
  } else if (expr.kind == CExprKind::kUpdate) {
    EvaluateUpdate(expr, Temporary(), false);
  } else if (expr.kind == CExprKind::kCall) {
    EvaluateCall(expr, 0, true);
  } else if (expr.kind == CExprKind::kConvert) {
    Discard(*expr.args[0]);
  } else {
    (void)Evaluate(expr);
  }
}

// r[to] = r[left] op right, for a tree whose operator is `expr.op`.
void CCompiler::Apply(const CExpr& expr, CIntType type, const CExpr& right, Register to,
                      Register left) {
  int64_t constant = 0;
  if (FoldC(right, constant)) {
    Emit(CInstructions::Binary(expr.op, type, true), expr.line, to, left).imm = constant;
  } else {
    const Register other = Evaluate(right);
    Emit(CInstructions::Binary(expr.op, type, false), expr.line, to, left, other);
  }
}

void CCompiler::EvaluateBinary(const CExpr& expr, Register to) {
  const CExpr& left = *expr.args[0];
  const CExpr& right = *expr.args[1];
  const Register first = Evaluate(left);
  if (left.type.is_int()) return Apply(expr, left.type.base, right, to, first);
  const Register second = Evaluate(right);
  if (expr.kind == CExprKind::kDifference) {
    Emit(CInstructions::Difference, expr.line, to, first, second).imm =
        static_cast<int64_t>(CellsOf(left.type));
  } else {
    Emit(CInstructions::PointerCompare, expr.line, to, first, second).code =
        static_cast<uint16_t>(expr.op);
  }
}

void CCompiler::EvaluateLogical(const CExpr& expr, Register to) {
  Label no, end;
  Branch(expr, false, no);
  Emit(CInstructions::Const, expr.line, to).imm = 1;
  EmitJump(CInstructions::Jump, expr.line, end);
  Bind(no);
  Emit(CInstructions::Const, expr.line, to).imm = 0;
  Bind(end);
}

void CCompiler::EvaluateChoose(const CExpr& expr, Register to) {
  Label no, end;
  Branch(*expr.args[0], false, no);
  EvaluateTo(*expr.args[1], to);
  EmitJump(CInstructions::Jump, expr.line, end);
  Bind(no);
  EvaluateTo(*expr.args[2], to);
  Bind(end);
}

// Jumps if the condition is `when`.
void CCompiler::Branch(const CExpr& condition, bool when, Label& to) {
  if (condition.kind == CExprKind::kNot) return Branch(*condition.args[0], !when, to);
  if (condition.kind == CExprKind::kAnd || condition.kind == CExprKind::kOr) {
    const bool decides = condition.kind == CExprKind::kOr;
    if (decides == when) {
      Branch(*condition.args[0], when, to);
      Branch(*condition.args[1], when, to);
    } else {
      Label past;
      Branch(*condition.args[0], decides, past);
      Branch(*condition.args[1], when, to);
      Bind(past);
    }
    return;
  }
  const uint32_t mark = next_;
  if (condition.kind == CExprKind::kCompare && condition.args[0]->type.is_int()) {
    const COp op = when ? condition.op : Opposite(condition.op);
    const CIntType type = condition.args[0]->type.base;
    const Register left = Evaluate(*condition.args[0]);
    int64_t constant = 0;
    const bool immediate = FoldC(*condition.args[1], constant);
    const Register right = immediate ? Register{0} : Evaluate(*condition.args[1]);
    CInstruction& jump =
        Emit(CInstructions::JumpCompare(op, type, immediate), condition.line, 0, left, right);
    jump.imm = constant;
    to.jumps.push_back(out_->code.size() - 1);
  } else {
    const Register value = Evaluate(condition);
    EmitJump(when ? CInstructions::JumpIf : CInstructions::JumpIfNot, condition.line, to, value);
  }
  next_ = mark;
}

void CCompiler::EvaluateAddress(const CExpr& expr, Register to) {
  const Target target = ReachVariable(expr.index, expr.line);
  Emit(CInstructions::Move, expr.line, to, target.pointer);
}

CCompiler::Target CCompiler::ReachVariable(uint32_t index, uint32_t line) {
  if (index < kCStaticBase) return {places_[index].value, zero_};
  const Register pointer = Temporary();
  Emit(CInstructions::Const, line, pointer).imm = PointerTo(index - kCStaticBase + 1, 0);
  return {pointer, zero_};
}

// `accessed`: what it points to is used, so that one behind the end will not do.
void CCompiler::EvaluateOffset(const CExpr& expr, Register to, bool accessed) {
  const CExpr& base = *expr.args[0];
  Register pointer = 0;
  if (base.kind == CExprKind::kOffset && base.type.is_array()) {
    pointer = Temporary();
    EvaluateOffset(base, pointer, true);
  } else if (base.kind == CExprKind::kAddress) {
    pointer = ReachVariable(base.index, expr.line).pointer;
  } else {
    pointer = Evaluate(base);
  }
  const Register moved = Evaluate(*expr.args[1]);
  // An array that is an element of another must exist as a whole.
  const auto stride = static_cast<int64_t>(CellsOf(expr.type));
  CHandler run = CInstructions::Offset;
  if (expr.in_array) {
    run = accessed || expr.type.is_array() ? CInstructions::OffsetIn : CInstructions::OffsetTo;
  } else if (expr.type.is_array()) {
    run = CInstructions::RowOf;
  }
  CInstruction& offset = Emit(run, expr.line, to, pointer, moved);
  offset.imm = stride;
  offset.jump = static_cast<int32_t>(expr.value);
}

// Where a load or a store goes.
CCompiler::Target CCompiler::Reach(const CExpr& address) {
  if (address.kind == CExprKind::kAddress) return ReachVariable(address.index, address.line);
  if (address.kind == CExprKind::kOffset) {
    const CExpr& base = *address.args[0];
    const bool in_row = base.kind == CExprKind::kOffset && base.type.is_array();
    if (in_row) {
      const Register pointer = Temporary();
      EvaluateOffset(address, pointer, true);
      return {pointer, zero_};
    }
    // The object's length is the array's: one check serves both.
    Target target;
    target.pointer = base.kind == CExprKind::kAddress
                         ? ReachVariable(base.index, address.line).pointer
                         : Evaluate(base);
    target.moved = Evaluate(*address.args[1]);
    return target;
  }
  return {Evaluate(address), zero_};
}

void CCompiler::MarkSet(uint32_t index, uint32_t line) {
  if (index >= kCStaticBase || !Variable(index).may_be_unset || Variable(index).in_memory()) return;
  Emit(CInstructions::Const, line, places_[index].is_set).imm = 1;
}

void CCompiler::EvaluateAssign(const CExpr& expr, Register to) {
  const CExpr& target = *expr.args[0];
  if (target.kind == CExprKind::kVariable && !Variable(target.index).in_memory()) {
    const Register own = places_[target.index].value;
    // A value is written last, so that computing it may read the variable.
    EvaluateTo(*expr.args[1], own);
    MarkSet(target.index, expr.line);
    if (to != own) Emit(CInstructions::Move, expr.line, to, own);
    return;
  }
  const Target reached = target.kind == CExprKind::kVariable
                             ? ReachVariable(target.index, expr.line)
                             : Reach(*target.args[0]);
  const Register value = Evaluate(*expr.args[1]);
  Emit(CInstructions::Store, expr.line, reached.pointer, reached.moved, value);
  Emit(CInstructions::Move, expr.line, to, value);
}

void CCompiler::Convert(CIntType from, CIntType to, Register to_register, Register from_register,
                        uint32_t line) {
  const CHandler run = CInstructions::Convert(from, to);
  if (run != nullptr) {
    Emit(run, line, to_register, from_register);
  } else if (to_register != from_register) {
    Emit(CInstructions::Move, line, to_register, from_register);
  }
}

void CCompiler::EvaluateUpdate(const CExpr& expr, Register to, bool gives_old) {
  const CExpr& target = *expr.args[0];
  const bool in_register =
      target.kind == CExprKind::kVariable && !Variable(target.index).in_memory();
  Target reached;
  Register before = 0;
  if (in_register) {
    before = Evaluate(target);
  } else {
    reached = target.kind == CExprKind::kVariable ? ReachVariable(target.index, expr.line)
                                                  : Reach(*target.args[0]);
    before = Temporary();
    Emit(CInstructions::Load, expr.line, before, reached.pointer, reached.moved);
  }
  if (in_register && gives_old) {
    Emit(CInstructions::Move, expr.line, to, before);
  }
  const Register after = in_register ? before : Temporary();
  if (expr.type.is_pointer()) {
    Register by = Evaluate(*expr.args[1]);
    if (expr.op == COp::kSub) {
      const Register negated = Temporary();
      Emit(CInstructions::Negate(kCLong), expr.line, negated, by);
      by = negated;
    }
    Emit(CInstructions::Offset, expr.line, after, before, by).imm =
        static_cast<int64_t>(CellsOf(expr.type));
  } else {
    // In the wider type first, where the conversion may change the value.
    const CHandler widen = CInstructions::Convert(expr.type.base, expr.compute);
    const CHandler narrow = CInstructions::Convert(expr.compute, expr.type.base);
    Register wide = before;
    if (widen != nullptr) {
      wide = Temporary();
      Emit(widen, expr.line, wide, before);
    }
    const Register sum = narrow != nullptr ? Temporary() : after;
    Apply(expr, expr.compute, *expr.args[1], sum, wide);
    if (narrow != nullptr) Emit(narrow, expr.line, after, sum);
  }
  if (!in_register) Emit(CInstructions::Store, expr.line, reached.pointer, reached.moved, after);
  if (gives_old && in_register) return;
  const Register result = gives_old ? before : after;
  if (to != result) Emit(CInstructions::Move, expr.line, to, result);
}

void CCompiler::EvaluateCall(const CExpr& expr, Register to, bool discards) {
  std::vector<Register> values;
  for (const CExprPtr& arg : expr.args) {
    values.push_back(Evaluate(*arg));
  }
  // The callee's frame begins behind everything this one uses.
  const uint32_t first = next_;
  for (size_t i = 0; i < values.size(); ++i) Temporary();
  if (values.empty()) Temporary();
  for (size_t i = 0; i < values.size(); ++i) {
    Emit(CInstructions::Move, expr.line, static_cast<Register>(first + i), values[i]);
  }
  CInstruction& call = Emit(CInstructions::Call, expr.line, static_cast<Register>(first));
  call.imm = expr.index;
  call.code = discards ? 1 : 0;
  if (!discards) {
    Emit(CInstructions::Move, expr.line, to, static_cast<Register>(first));
  }
}

void CCompiler::EvaluateBuiltin(const CExpr& expr, Register to) {
  if (expr.builtin == CBuiltin::kUnreachable) {
    Emit(CInstructions::Unreachable, expr.line);
    return;
  }
  const Register first = Evaluate(*expr.args[0]);
  if (expr.builtin != CBuiltin::kMemset && expr.builtin != CBuiltin::kMemcpy) {
    CInstruction& call = Emit(CInstructions::Builtin, expr.line, to, first);
    call.code = static_cast<uint16_t>(expr.builtin);
    call.imm = expr.value;
    return;
  }
  const Register second = Evaluate(*expr.args[1]);
  const Register third = Evaluate(*expr.args[2]);
  const bool is_set = expr.builtin == CBuiltin::kMemset;
  CInstruction& call =
      Emit(is_set ? CInstructions::Memset : CInstructions::Memcpy, expr.line, first, second, third);
  call.imm = expr.value;
  call.code =
      static_cast<uint16_t>((expr.compute.is_signed ? 1 : 0) | (expr.compute.is_bool ? 2 : 0));
}

}  // namespace tidemill
