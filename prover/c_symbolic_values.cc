#include "prover/c_symbolic.h"

namespace tidemill {

z3::expr SymbolicRun::Number(int64_t value, unsigned bits) {
  return context_.bv_val(static_cast<uint64_t>(value), 64).extract(bits - 1, 0).simplify();
}

z3::expr SymbolicRun::Simplified(const z3::expr& formula) {
  if (++work_ > limits_.work) failed_ = true;
  return SimplifiedTop(formula, 3);
}

// Z3's own simplifier walks the whole of a formula each time; what is new is only its top.
z3::expr SymbolicRun::SimplifiedTop(const z3::expr& formula, int depth) {
  if (!formula.is_app() || formula.num_args() == 0 || depth == 0) return formula;
  z3::expr_vector args(context_);
  bool constant = true, changed = false;
  for (unsigned i = 0; i < formula.num_args(); ++i) {
    const z3::expr before = formula.arg(i);
    const z3::expr arg = SimplifiedTop(before, depth - 1);
    constant = constant && (arg.is_numeral() || arg.is_true() || arg.is_false());
    changed = changed || !z3::eq(before, arg);
    args.push_back(arg);
  }
  const z3::expr same = changed ? formula.decl()(args) : formula;
  if (constant) return same.simplify();
  switch (same.decl().decl_kind()) {
    case Z3_OP_ITE:
      if (args[0].is_true() || z3::eq(args[1], args[2])) return args[1];
      return args[0].is_false() ? args[2] : same;
    case Z3_OP_NOT:
      return args[0].is_not() ? args[0].arg(0) : same;
    case Z3_OP_AND:
    case Z3_OP_OR:
      return SimplifiedJunction(same, args);
    case Z3_OP_EQ:
      if (z3::eq(args[0], args[1])) return context_.bool_val(true);
      return SimplifiedEquality(same, args);
    default:
      return same;
  }
}

z3::expr SymbolicRun::SimplifiedJunction(const z3::expr& same, const z3::expr_vector& args) {
  const bool is_and = same.is_and();
  z3::expr_vector kept(context_);
  for (unsigned i = 0; i < args.size(); ++i) {
    if (is_and ? args[i].is_false() : args[i].is_true()) return args[i];
    if (!(is_and ? args[i].is_true() : args[i].is_false())) kept.push_back(args[i]);
  }
  if (kept.size() == args.size()) return same;
  if (kept.size() == 1) return kept[0];
  return is_and ? z3::mk_and(kept) : z3::mk_or(kept);
}

// (c ? 1 : 0) == 0 is !c.
z3::expr SymbolicRun::SimplifiedEquality(const z3::expr& same, const z3::expr_vector& args) {
  for (unsigned i = 0; i < 2; ++i) {
    const z3::expr choice = args[i], number = args[1 - i];
    if (!choice.is_ite() || !number.is_numeral()) continue;
    const z3::expr yes = choice.arg(1), no = choice.arg(2);
    if (!yes.is_numeral() || !no.is_numeral()) continue;
    const bool is_yes = z3::eq(yes, number), is_no = z3::eq(no, number);
    if (is_yes == is_no) return context_.bool_val(is_yes);
    return is_yes ? choice.arg(0) : SimplifiedTop(!choice.arg(0), 1);
  }
  return same;
}

z3::expr SymbolicRun::Bit(const z3::expr& condition, CIntType type) {
  return z3::ite(condition, Number(1, type.bits), Number(0, type.bits));
}

// The run is undefined if it comes here and the condition holds; else it goes on.
void SymbolicRun::Undefined(const z3::expr& condition, State& state) {
  const z3::expr here = Simplified(state.live && condition);
  if (here.is_false()) return;
  undefined_ = undefined_ || here;
  state.live = Simplified(state.live && !condition);
}

z3::expr SymbolicRun::Converted(const z3::expr& value, CIntType from, CIntType to) {
  if (to.is_bool) {
    return from.is_bool ? value : Simplified(Bit(!(value == Number(0, from.bits)), to));
  }
  if (from.bits == to.bits) return value;
  if (from.bits > to.bits) return Simplified(value.extract(to.bits - 1, 0));
  const unsigned more = to.bits - from.bits;
  return Simplified(from.is_signed ? z3::sext(value, more) : z3::zext(value, more));
}

z3::expr SymbolicRun::Truth(const CExpr& expr, State& state) {
  const z3::expr value = Value(expr, state);
  return Simplified(!(value == Number(0, expr.type.base.bits)));
}

z3::expr SymbolicRun::Value(const CExpr& expr, State& state) {
  const unsigned bits = expr.type.base.bits;
  if (failed_ || state.live.is_false()) return Number(0, bits);
  switch (expr.kind) {
    case CExprKind::kConstant:
      return Number(expr.value, bits);
    case CExprKind::kVariable:
      return Variable(expr, state);
    case CExprKind::kLoad:
      if (const auto place = Reach(expr, state)) return Load(*place, state, expr.type.base);
      break;
    case CExprKind::kConvert: {
      const z3::expr value = Value(*expr.args[0], state);
      if (expr.type.is_void()) return Number(0, bits);
      return Converted(value, expr.args[0]->type.base, expr.type.base);
    }
    case CExprKind::kNegate:
      return Binary(COp::kSub, expr.type.base, Number(0, bits), Value(*expr.args[0], state),
                    expr.type.base, state);
    case CExprKind::kBitNot:
      return Simplified(~Value(*expr.args[0], state));
    case CExprKind::kNot:
      return Simplified(Bit(!Truth(*expr.args[0], state), kCInt));
    case CExprKind::kBinary:
    case CExprKind::kCompare: {
      const CIntType type = expr.args[0]->type.base;
      const z3::expr left = Value(*expr.args[0], state);
      const z3::expr right = Value(*expr.args[1], state);
      return Binary(expr.op, type, left, right, expr.args[1]->type.base, state);
    }
    case CExprKind::kAnd:
    case CExprKind::kOr:
      return Logical(expr, state);
    case CExprKind::kChoose:
      return Choose(expr, state);
    case CExprKind::kComma:
      (void)Value(*expr.args[0], state);
      return Value(*expr.args[1], state);
    case CExprKind::kAssign:
      return Assign(expr, state);
    case CExprKind::kUpdate:
      return Update(expr, state);
    case CExprKind::kCall:
      return Call(expr, state);
    case CExprKind::kBuiltin:
      return Builtin(expr, state);
    default:
      break;
  }
  failed_ = true;  // pointers
  return Number(0, bits);
}

z3::expr SymbolicRun::Binary(COp op, CIntType type, const z3::expr& left, const z3::expr& right,
                             CIntType right_type, State& state) {
  const bool is_signed = type.is_signed;
  switch (op) {
    case COp::kAdd:
      if (is_signed) {
        Undefined(!z3::bvadd_no_overflow(left, right, true) || !z3::bvadd_no_underflow(left, right),
                  state);
      }
      return Simplified(left + right);
    case COp::kSub:
      if (is_signed) {
        Undefined(!z3::bvsub_no_overflow(left, right) || !z3::bvsub_no_underflow(left, right, true),
                  state);
      }
      return Simplified(left - right);
    case COp::kMul:
      if (is_signed) {
        Undefined(!z3::bvmul_no_overflow(left, right, true) || !z3::bvmul_no_underflow(left, right),
                  state);
      }
      return Simplified(left * right);
    case COp::kDiv:
    case COp::kRem:
      return Divide(op, type, left, right, state);
    case COp::kShl:
    case COp::kShr:
      return Shift(op, type, left, right, right_type, state);
    case COp::kAnd:
      return Simplified(left & right);
    case COp::kOr:
      return Simplified(left | right);
    case COp::kXor:
      return Simplified(left ^ right);
    case COp::kLt:
      return Simplified(Bit(is_signed ? left < right : z3::ult(left, right), kCInt));
    case COp::kLe:
      return Simplified(Bit(is_signed ? left <= right : z3::ule(left, right), kCInt));
    case COp::kGt:
      return Simplified(Bit(is_signed ? left > right : z3::ugt(left, right), kCInt));
    case COp::kGe:
      return Simplified(Bit(is_signed ? left >= right : z3::uge(left, right), kCInt));
    case COp::kEq:
      return Simplified(Bit(left == right, kCInt));
    case COp::kNe:
      break;
  }
  return Simplified(Bit(!(left == right), kCInt));
}

z3::expr SymbolicRun::Divide(COp op, CIntType type, const z3::expr& left, const z3::expr& right,
                             State& state) {
  Undefined(right == Number(0, type.bits), state);
  if (!type.is_signed) {
    return Simplified(op == COp::kDiv ? z3::udiv(left, right) : z3::urem(left, right));
  }
  Undefined(left == Number(LowestOf(type), type.bits) && right == Number(-1, type.bits), state);
  return Simplified(op == COp::kDiv ? left / right : z3::srem(left, right));
}

z3::expr SymbolicRun::Shift(COp op, CIntType type, const z3::expr& left, const z3::expr& right,
                            CIntType right_type, State& state) {
  Undefined(!z3::ult(right, Number(type.bits, right_type.bits)), state);
  const z3::expr count =
      Converted(right, {right_type.bits, false, false}, {type.bits, false, false});
  if (op == COp::kShr) {
    return Simplified(type.is_signed ? z3::ashr(left, count) : z3::lshr(left, count));
  }
  if (type.is_signed) {
    Undefined(left < Number(0, type.bits), state);
    Undefined(left > z3::lshr(Number(HighestOf(type), type.bits), count), state);
  }
  return Simplified(z3::shl(left, count));
}

z3::expr SymbolicRun::Logical(const CExpr& expr, State& state) {
  const bool is_and = expr.kind == CExprKind::kAnd;
  const z3::expr left = Truth(*expr.args[0], state);
  State other = state;
  other.live = Simplified(state.live && (is_and ? left : !left));
  state.live = Simplified(state.live && (is_and ? !left : left));
  const z3::expr right = Truth(*expr.args[1], other);
  std::vector<State> both;
  both.push_back(std::move(state));
  both.push_back(std::move(other));
  state = Merge(std::move(both));
  return Simplified(Bit(is_and ? left && right : left || right, kCInt));
}

z3::expr SymbolicRun::Choose(const CExpr& expr, State& state) {
  const z3::expr condition = Truth(*expr.args[0], state);
  State other = state;
  state.live = Simplified(state.live && condition);
  other.live = Simplified(other.live && !condition);
  const z3::expr yes = Value(*expr.args[1], state);
  const z3::expr no = Value(*expr.args[2], other);
  std::vector<State> both;
  both.push_back(std::move(state));
  both.push_back(std::move(other));
  state = Merge(std::move(both));
  return Simplified(z3::ite(condition, yes, no));
}

z3::expr SymbolicRun::Builtin(const CExpr& expr, State& state) {
  const auto bits = static_cast<unsigned>(expr.value);
  if (expr.builtin >= CBuiltin::kMemset) {
    failed_ = expr.builtin != CBuiltin::kUnreachable;
    if (!failed_) Undefined(context_.bool_val(true), state);
    return Number(0, 32);
  }
  const z3::expr value = Value(*expr.args[0], state);
  const z3::expr zero = Number(0, bits);
  if (expr.builtin == CBuiltin::kAbs) {
    Undefined(value == Number(LowestOf({static_cast<uint8_t>(bits), true, false}), bits), state);
    return Simplified(z3::ite(value < zero, -value, value));
  }
  if (expr.builtin == CBuiltin::kClz || expr.builtin == CBuiltin::kCtz) {
    Undefined(value == zero, state);
  }
  z3::expr count = Number(0, 32);
  const auto bit = [&](unsigned i) { return value.extract(i, i) == context_.bv_val(1, 1); };
  for (unsigned i = 0; i < bits; ++i) {
    switch (expr.builtin) {
      case CBuiltin::kPopcount:
      case CBuiltin::kParity:
        count = count + Bit(bit(i), kCInt);
        break;
      case CBuiltin::kClz:  // the highest bit that is set decides last
        count = z3::ite(bit(i), Number(bits - 1 - i, 32), count);
        break;
      default:  // the lowest decides last
        count = z3::ite(bit(bits - 1 - i),
                        Number(bits - 1 - i + (expr.builtin == CBuiltin::kFfs ? 1 : 0), 32), count);
        break;
    }
  }
  if (expr.builtin == CBuiltin::kParity) count = count & Number(1, 32);
  return Simplified(count);
}

}  // namespace tidemill
