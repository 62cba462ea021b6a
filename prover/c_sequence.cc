// Which expressions have a value that does not depend on the order in which a compiler evaluates
// their parts.
#include <algorithm>
#include <set>

#include "prover/c_ast.h"
#include "prover/c_lexer.h"

namespace tidemill {
namespace {

// Stands for whatever a pointer may point to.
constexpr uint32_t kAnywhere = ~0u;

// The reads and changes of an expression, by variable. `late` writes are side effects that
// nothing within the expression waits for; a call's are over when it returns.
struct Effects {
  std::set<uint32_t> reads;
  std::set<uint32_t> writes;
  std::set<uint32_t> late;

  void Add(const Effects& other) {
    reads.insert(other.reads.begin(), other.reads.end());
    writes.insert(other.writes.begin(), other.writes.end());
    late.insert(other.late.begin(), other.late.end());
  }
};

// The variable an address points into.
uint32_t PointedInto(const CExpr& address) {
  const CExpr* at = &address;
  while (at->kind == CExprKind::kOffset) at = at->args[0].get();
  return at->kind == CExprKind::kAddress ? at->index : kAnywhere;
}

// The variable that an assignment or update changes.
uint32_t WrittenBy(const CExpr& write) {
  const CExpr& target = *write.args[0];
  return target.kind == CExprKind::kLoad ? PointedInto(*target.args[0]) : target.index;
}

class SequenceCheck {
 public:
  SequenceCheck(const CProgram& program, const CFunction& function)
      : program_(program), function_(function) {}

  Status Check(const CStatement& statement) {
    Effects all;
    for (const CExprPtr& expr : statement.exprs) {
      if (expr == nullptr) continue;
      Effects own = Of(*expr);
      // The values of a list are evaluated in any order.
      if (statement.kind == CStatementKind::kDeclare) Apart(all, own, expr->line);
      all.Add(own);
    }
    TM_RETURN_IF_ERROR(fault_);
    for (const CStatementPtr& inner : statement.body) TM_RETURN_IF_ERROR(Check(*inner));
    return Ok();
  }

 private:
  bool InMemory(uint32_t variable) const {
    return VariableOf(program_, function_, variable).in_memory();
  }

  bool Meet(const std::set<uint32_t>& a, const std::set<uint32_t>& b) const {
    for (const uint32_t x : a) {
      if (b.count(x) != 0) return true;
      if (x != kAnywhere && InMemory(x) && b.count(kAnywhere) != 0) return true;
      if (x != kAnywhere) continue;
      for (const uint32_t y : b) {
        if (y != kAnywhere && InMemory(y)) return true;
      }
    }
    return false;
  }

  // Of two parts that may be evaluated in either order.
  void Apart(const Effects& a, const Effects& b, uint32_t line) {
    if (Meet(a.writes, b.reads) || Meet(a.reads, b.writes) || Meet(a.writes, b.writes)) Fail(line);
  }

  void Fail(uint32_t line) {
    if (fault_.ok()) fault_ = NotInSubset(line, "a result that depends on the order of evaluation");
  }

  Effects Of(const CExpr& expr) {
    switch (expr.kind) {
      case CExprKind::kAssign:
      case CExprKind::kUpdate:
        return OfWrite(expr);
      case CExprKind::kAnd:
      case CExprKind::kOr:
      case CExprKind::kChoose:
      case CExprKind::kComma:
        return OfInOrder(expr);
      default:
        break;
    }
    Effects all;
    for (const CExprPtr& arg : expr.args) {
      Effects own = Of(*arg);
      Apart(all, own, arg->line);
      all.Add(own);
    }
    if (expr.kind == CExprKind::kVariable) all.reads.insert(expr.index);
    if (expr.kind == CExprKind::kLoad) all.reads.insert(PointedInto(*expr.args[0]));
    if (expr.kind == CExprKind::kCall || expr.kind == CExprKind::kBuiltin) OfCall(expr, all);
    return all;
  }

  Effects OfInOrder(const CExpr& expr) {
    Effects all;
    for (const CExprPtr& arg : expr.args) all.Add(Of(*arg));
    return all;
  }

  Effects OfWrite(const CExpr& expr) {
    const CExpr& target = *expr.args[0];
    Effects all = target.kind == CExprKind::kLoad ? Of(*target.args[0]) : Effects();
    const Effects value = Of(*expr.args[1]);
    Apart(all, value, expr.line);
    all.Add(value);
    const uint32_t written = WrittenBy(expr);
    // The write waits for both values, but not for side effects on the way to them. x = y = 0 may
    // write in any order, even to one place: it is the same value.
    std::set<uint32_t> late = all.late;
    for (const CExpr* at = expr.args[1].get();
         expr.kind == CExprKind::kAssign && at->kind == CExprKind::kAssign;
         at = at->args[1].get()) {
      late.erase(WrittenBy(*at));
    }
    if (Meet(late, {written})) Fail(expr.line);
    // x += g(&x): the old value may be read before the call or after it.
    if (expr.kind == CExprKind::kUpdate && Meet(all.writes, {written})) Fail(expr.line);
    if (expr.kind == CExprKind::kUpdate) all.reads.insert(written);
    all.writes.insert(written);
    all.late.insert(written);
    return all;
  }

  void OfCall(const CExpr& expr, Effects& all) {
    const bool is_call = expr.kind == CExprKind::kCall;
    const bool writes =
        is_call ? program_.functions[expr.index].writes_memory
                : expr.builtin == CBuiltin::kMemset || expr.builtin == CBuiltin::kMemcpy;
    std::set<uint32_t> reached;
    for (const CExprPtr& arg : expr.args) {
      if (arg->type.is_pointer()) reached.insert(PointedInto(*arg));
    }
    // The arguments' effects are over before the call.
    all.reads.insert(reached.begin(), reached.end());
    if (writes) all.writes.insert(reached.begin(), reached.end());
  }

  const CProgram& program_;
  const CFunction& function_;
  Status fault_;
};

// Whether the function writes through a pointer that came from outside it.
bool WritesMemory(const CProgram& program, const CExpr& expr) {
  if (expr.kind == CExprKind::kAssign || expr.kind == CExprKind::kUpdate) {
    const CExpr& target = *expr.args[0];
    if (target.kind == CExprKind::kLoad && PointedInto(*target.args[0]) == kAnywhere) return true;
  }
  const bool may_write =
      (expr.kind == CExprKind::kCall && program.functions[expr.index].writes_memory) ||
      (expr.kind == CExprKind::kBuiltin && expr.builtin >= CBuiltin::kMemset);
  for (const CExprPtr& arg : expr.args) {
    if (may_write && arg->type.is_pointer() && PointedInto(*arg) == kAnywhere) return true;
    if (WritesMemory(program, *arg)) return true;
  }
  return false;
}

bool WritesMemory(const CProgram& program, const CStatement& statement) {
  const bool here = std::any_of(
      statement.exprs.begin(), statement.exprs.end(),
      [&](const CExprPtr& expr) { return expr != nullptr && WritesMemory(program, *expr); });
  return here || std::any_of(statement.body.begin(), statement.body.end(),
                             [&](const CStatementPtr& s) { return WritesMemory(program, *s); });
}

}  // namespace

void FindMemoryWrites(CProgram& program) {
  for (bool changed = true; changed;) {
    changed = false;
    for (CFunction& function : program.functions) {
      if (function.body == nullptr || function.writes_memory) continue;
      function.writes_memory = WritesMemory(program, *function.body);
      changed |= function.writes_memory;
    }
  }
}

Status CheckSequence(const CProgram& program, const CFunction& function) {
  return SequenceCheck(program, function).Check(*function.body);
}

}  // namespace tidemill
