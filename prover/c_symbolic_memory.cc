#include "prover/c_symbolic.h"

namespace tidemill {

SymbolicRun::Cells& SymbolicRun::CellsIn(uint32_t variable, State& state) {
  return variable >= kCStaticBase ? statics_[variable - kCStaticBase] : state.variables[variable];
}

z3::expr SymbolicRun::Variable(const CExpr& expr, State& state) {
  const Cells& cells = CellsIn(expr.index, state);
  if (expr.type.is_pointer() || cells.values.empty()) {
    failed_ = true;
    return Number(0, expr.type.base.bits);
  }
  if (!cells.set[0].is_true()) Undefined(!cells.set[0], state);
  return cells.values[0];
}

// The cell an address names, with every index on the way inside its array. nullopt: it goes through
// a pointer.
std::optional<z3::expr> SymbolicRun::CellOf(const CExpr& address, State& state,
                                            uint32_t& variable) {
  if (address.kind == CExprKind::kAddress) {
    variable = address.index;
    if (!CellsIn(variable, state).values.empty()) return Number(0, 64);
  } else if (address.kind == CExprKind::kOffset && address.in_array) {
    const auto base = CellOf(*address.args[0], state, variable);
    if (base) {
      const z3::expr index = Value(*address.args[1], state);
      Undefined(!z3::ult(index, Number(address.value, 64)), state);
      const auto stride = static_cast<int64_t>(CellsOf(address.type));
      return Simplified(*base + index * Number(stride, 64));
    }
  }
  failed_ = true;
  return std::nullopt;
}

std::optional<SymbolicRun::Place> SymbolicRun::Reach(const CExpr& target, State& state) {
  if (target.kind == CExprKind::kVariable) {
    if (!target.type.is_pointer() && !CellsIn(target.index, state).values.empty()) {
      return Place{target.index, Number(0, 64)};
    }
    failed_ = true;
    return std::nullopt;
  }
  uint32_t variable = 0;
  const auto cell = CellOf(*target.args[0], state, variable);
  if (!cell) return std::nullopt;
  return Place{variable, *cell};
}

z3::expr SymbolicRun::Load(const Place& place, State& state, CIntType type) {
  const Cells& cells = CellsIn(place.variable, state);
  z3::expr value = Number(0, type.bits);
  z3::expr set = context_.bool_val(true);
  for (size_t i = 0; i < cells.values.size(); ++i) {
    const z3::expr here = Simplified(place.cell == Number(static_cast<int64_t>(i), 64));
    if (here.is_false()) continue;
    value = here.is_true() ? cells.values[i] : z3::ite(here, cells.values[i], value);
    set = here.is_true() ? cells.set[i] : z3::ite(here, cells.set[i], set);
  }
  // A cell without a value could hold anything; no proof rests on it.
  const z3::expr unset = Simplified(!set);
  if (!unset.is_false()) Undefined(unset, state);
  return Simplified(value);
}

void SymbolicRun::Store(const Place& place, const z3::expr& value, State& state) {
  if (place.variable >= kCStaticBase) {
    failed_ = true;
    return;
  }
  Cells& cells = CellsIn(place.variable, state);
  for (size_t i = 0; i < cells.values.size(); ++i) {
    const z3::expr here = Simplified(place.cell == Number(static_cast<int64_t>(i), 64));
    if (here.is_false()) continue;
    cells.values[i] = here.is_true() ? value : Simplified(z3::ite(here, value, cells.values[i]));
    cells.set[i] = Simplified(cells.set[i] || here);
  }
}

z3::expr SymbolicRun::Assign(const CExpr& expr, State& state) {
  const unsigned bits = expr.type.base.bits;
  const auto place = Reach(*expr.args[0], state);
  if (!place) return Number(0, bits);
  const z3::expr value = Value(*expr.args[1], state);
  Store(*place, value, state);
  return value;
}

z3::expr SymbolicRun::Update(const CExpr& expr, State& state) {
  const CIntType type = expr.type.base;
  const auto place = Reach(*expr.args[0], state);
  if (!place) return Number(0, type.bits);
  const z3::expr before = Load(*place, state, type);
  const z3::expr right = Value(*expr.args[1], state);
  const z3::expr sum = Binary(expr.op, expr.compute, Converted(before, type, expr.compute), right,
                              expr.args[1]->type.base, state);
  const z3::expr after = Converted(sum, expr.compute, type);
  Store(*place, after, state);
  return expr.gives_old ? before : after;
}

z3::expr SymbolicRun::Call(const CExpr& expr, State& state) {
  std::vector<z3::expr> arguments;
  for (const CExprPtr& arg : expr.args) {
    if (arg->type.is_pointer()) failed_ = true;
    if (failed_) return Number(0, expr.type.base.bits);
    arguments.push_back(Value(*arg, state));
  }
  z3::expr value = Number(0, expr.type.base.bits);
  if (!Follow(expr.index, arguments, state.live, value)) failed_ = true;
  return value;
}

// One state from several of which at most one is real.
SymbolicRun::State SymbolicRun::Merge(std::vector<State> states) {
  std::erase_if(states, [](const State& state) { return state.live.is_false(); });
  if (states.empty()) return {context_.bool_val(false), {}};
  State merged = std::move(states.back());
  states.pop_back();
  while (!states.empty() && !failed_) {
    const State& other = states.back();
    for (size_t i = 0; i < merged.variables.size(); ++i) {
      Cells& cells = merged.variables[i];
      const Cells& others = other.variables[i];
      for (size_t k = 0; k < cells.values.size(); ++k) {
        if (!z3::eq(cells.values[k], others.values[k])) {
          cells.values[k] = Simplified(z3::ite(other.live, others.values[k], cells.values[k]));
        }
        if (!z3::eq(cells.set[k], others.set[k])) {
          cells.set[k] = Simplified(z3::ite(other.live, others.set[k], cells.set[k]));
        }
      }
    }
    merged.live = Simplified(merged.live || other.live);
    states.pop_back();
  }
  return merged;
}

}  // namespace tidemill
