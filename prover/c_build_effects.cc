// Nodes that change something: assignments, updates, calls.
#include <algorithm>

#include "core/text.h"
#include "prover/c_parser.h"

namespace tidemill {

// Whether C and this front end allow a write there.
bool CParser::Writable(const CExpr& target) {
  const CExpr* at = &target;
  if (at->kind != CExprKind::kVariable && at->kind != CExprKind::kLoad) {
    FailNotC("an assignment to what is no variable");
    return false;
  }
  while (at->kind == CExprKind::kLoad || at->kind == CExprKind::kOffset) at = at->args[0].get();
  if (at->kind != CExprKind::kVariable && at->kind != CExprKind::kAddress) return true;
  const CVariable& variable = Variable(at->index);
  const bool itself = at->kind == CExprKind::kAddress || at == &target;
  if (itself && variable.is_const) {
    FailNotC("an assignment to the constant \"" + variable.name + "\"");
    return false;
  }
  if (itself && variable.is_static) {
    FailSubset("an assignment to the static variable \"" + variable.name + "\"");
    return false;
  }
  return true;
}

// Of the block of the innermost variable the pointer may point to.
uint16_t CParser::PointerDepth(const CExpr& expr) {
  switch (expr.kind) {
    case CExprKind::kVariable:
    case CExprKind::kAddress:
      return Variable(expr.index).scope_depth;
    case CExprKind::kOffset:
    case CExprKind::kUpdate:
      return PointerDepth(*expr.args[0]);
    case CExprKind::kComma:
    case CExprKind::kAssign:
      return PointerDepth(*expr.args[1]);
    case CExprKind::kChoose:
      return std::max(PointerDepth(*expr.args[1]), PointerDepth(*expr.args[2]));
    default:
      return 0;
  }
}

CExprPtr CParser::MakeAssign(CExprPtr target, CExprPtr value) {
  if (failed() || target == nullptr || !Writable(*target)) return nullptr;
  value = AsType(std::move(value), target->type);
  if (value == nullptr) return nullptr;
  if (target->type.is_pointer() && PointerDepth(*value) > Variable(target->index).scope_depth) {
    FailSubset("a pointer that outlives what it points to");
    return nullptr;
  }
  CExprPtr assign = New(CExprKind::kAssign, target->type);
  Adopt(*assign, std::move(target));
  Adopt(*assign, std::move(value));
  return assign;
}

CExprPtr CParser::MakeUpdate(COp op, CExprPtr target, CExprPtr value, bool gives_old) {
  if (failed() || target == nullptr || !Writable(*target)) return nullptr;
  value = Integer(std::move(value));
  if (value == nullptr) return nullptr;
  CExprPtr update = New(CExprKind::kUpdate, target->type);
  update->op = op;
  update->gives_old = gives_old;
  if (target->type.is_pointer()) {
    if (op != COp::kAdd && op != COp::kSub) {
      FailSubset("this operator on a pointer");
      return nullptr;
    }
    value = Converted(std::move(value), kCLong);
  } else {
    const bool is_shift = op == COp::kShl || op == COp::kShr;
    update->compute =
        is_shift ? Promoted(target->type.base) : CommonType(target->type.base, value->type.base);
    const CIntType type = is_shift ? Promoted(value->type.base) : update->compute;
    value = Converted(std::move(value), type);
  }
  Adopt(*update, std::move(target));
  Adopt(*update, std::move(value));
  return update;
}

CExprPtr CParser::MakeCall(uint32_t function, std::vector<CExprPtr> args, uint32_t line) {
  const CFunction& callee = program_.functions[function];
  if (!states_[function].defined) {
    FailSubset("a call of \"" + callee.name + "\", which has no body here");
    return nullptr;
  }
  if (args.size() != callee.parameters) {
    FailNotC("\"" + callee.name + "\" takes " + std::to_string(callee.parameters) +
             " arguments, got " + std::to_string(args.size()));
    return nullptr;
  }
  CExprPtr call = New(CExprKind::kCall, callee.result);
  call->index = function;
  call->line = line;
  for (size_t i = 0; i < args.size(); ++i) {
    Adopt(*call, AsType(std::move(args[i]), callee.variables[i].type));
    if (failed()) return nullptr;
  }
  return call;
}

CExprPtr CParser::MakeBuiltin(std::string_view name, std::vector<CExprPtr> args) {
  if (name == "memset") return MakeMemory(CBuiltin::kMemset, std::move(args));
  if (name == "memcpy") return MakeMemory(CBuiltin::kMemcpy, std::move(args));
  if (name == "__builtin_unreachable" && args.empty()) {
    CExprPtr call = New(CExprKind::kBuiltin, {CType::Kind::kVoid, kCInt, {}});
    call->builtin = CBuiltin::kUnreachable;
    return call;
  }
  CBuiltin builtin;
  CIntType argument;
  if (!FindBuiltin(name, builtin, argument)) {
    FailSubset("a call of \"" + Beginning(name, 40) + "\", which has no body here");
    return nullptr;
  }
  if (args.size() != 1) {
    FailNotC("\"" + std::string(name) + "\" takes one argument");
    return nullptr;
  }
  CExprPtr call = New(CExprKind::kBuiltin, IntType(builtin == CBuiltin::kAbs ? argument : kCInt));
  call->builtin = builtin;
  call->value = argument.bits;
  Adopt(*call, AsType(std::move(args[0]), IntType(argument)));
  return failed() ? nullptr : std::move(call);
}

// memset(array, 0, bytes) and memcpy(array, array, bytes).
CExprPtr CParser::MakeMemory(CBuiltin builtin, std::vector<CExprPtr> args) {
  if (args.size() != 3) {
    FailNotC("memset and memcpy take three arguments");
    return nullptr;
  }
  const bool is_copy = builtin == CBuiltin::kMemcpy;
  if (!args[0]->type.is_pointer() || (is_copy && args[1]->type != args[0]->type)) {
    FailSubset("memset or memcpy of this");
    return nullptr;
  }
  CExprPtr call = New(CExprKind::kBuiltin, {CType::Kind::kVoid, kCInt, {}});
  call->builtin = builtin;
  call->value = args[0]->type.base.bits;
  call->compute = args[0]->type.base;
  Adopt(*call, std::move(args[0]));
  Adopt(*call, is_copy ? std::move(args[1]) : AsType(std::move(args[1]), IntType(kCInt)));
  Adopt(*call, AsType(std::move(args[2]), IntType(kCUnsignedLong)));
  return failed() ? nullptr : std::move(call);
}

}  // namespace tidemill
