#include <algorithm>
#include <utility>

#include "prover/c_symbolic.h"

namespace tidemill {

SymbolicRun::SymbolicRun(z3::context& context, const CProgram& program,
                         const SymbolicLimits& limits)
    : context_(context),
      program_(program),
      limits_(limits),
      undefined_(context.bool_val(false)),
      unfinished_(context.bool_val(false)) {
  for (const CVariable& variable : program.statics) {
    Cells cells;
    if (variable.initial.size() <= limits.cells && variable.is_const) {
      for (const int64_t value : variable.initial) {
        cells.values.push_back(Number(value, variable.type.base.bits));
        cells.set.push_back(context.bool_val(true));
      }
    }
    statics_.push_back(std::move(cells));
  }
}

std::optional<SymbolicResult> SymbolicRun::Run(const std::vector<z3::expr>& parameters) {
  z3::expr live = context_.bool_val(true);
  z3::expr value = Number(0, program_.functions[program_.entry].result.base.bits);
  if (!Follow(program_.entry, parameters, live, value) || failed_) return std::nullopt;
  return SymbolicResult{value, undefined_, unfinished_};
}

SymbolicRun::State SymbolicRun::FirstState(const CFunction& function,
                                           const std::vector<z3::expr>& arguments,
                                           const z3::expr& live) {
  State state{live, {}};
  for (size_t i = 0; i < function.variables.size(); ++i) {
    const CVariable& variable = function.variables[i];
    Cells cells;
    const uint64_t count = variable.type.is_pointer() ? 0 : CellsOf(variable.type);
    if (count > limits_.cells) failed_ = true;
    for (uint64_t k = 0; k < count && !failed_; ++k) {
      cells.values.push_back(i < arguments.size() ? arguments[i]
                                                  : Number(0, variable.type.base.bits));
      cells.set.push_back(context_.bool_val(i < arguments.size()));
    }
    state.variables.push_back(std::move(cells));
  }
  return state;
}

// From a call to its return. `live` loses what did not come back.
bool SymbolicRun::Follow(uint32_t function, const std::vector<z3::expr>& arguments, z3::expr& live,
                         z3::expr& value) {
  if (failed_) return false;
  if (depth_ >= limits_.recursion) {
    unfinished_ = unfinished_ || live;
    live = context_.bool_val(false);
    return true;
  }
  Activation activation;
  activation.function = &program_.functions[function];
  Activation* const outer = std::exchange(activation_, &activation);
  ++depth_;
  State state = FirstState(*activation.function, arguments, live);
  Do(*activation.function->body, state);
  // Behind the last statement.
  if (activation.function->result.is_void()) {
    activation.returned.push_back({state.live, value});
  } else if (!state.live.is_false()) {
    undefined_ = undefined_ || state.live;
  }
  live = context_.bool_val(false);
  for (const Returned& returned : activation.returned) {
    if (returned.live.is_false()) continue;
    value = live.is_false() ? returned.value
                            : Simplified(z3::ite(returned.live, returned.value, value));
    live = Simplified(live || returned.live);
  }
  --depth_;
  activation_ = outer;
  return !failed_;
}

void SymbolicRun::Do(const CStatement& statement, State& state) {
  if (failed_ || state.live.is_false()) return;
  switch (statement.kind) {
    case CStatementKind::kExpression:
      (void)Value(*statement.exprs[0], state);
      return;
    case CStatementKind::kDeclare:
      return DoDeclare(statement, state);
    case CStatementKind::kBlock:
      for (const CStatementPtr& inner : statement.body) Do(*inner, state);
      return;
    case CStatementKind::kIf:
      return DoIf(statement, state);
    case CStatementKind::kWhile:
    case CStatementKind::kDo:
    case CStatementKind::kFor:
      return DoLoop(statement, state);
    case CStatementKind::kSwitch:
      return DoSwitch(statement, state);
    case CStatementKind::kBreak:
    case CStatementKind::kContinue: {
      Exits& exits = *activation_->exits;
      const bool is_break = statement.kind == CStatementKind::kBreak;
      (is_break ? exits.breaks : exits.continues).push_back(state);
      state.live = context_.bool_val(false);
      return;
    }
    case CStatementKind::kReturn:
      return DoReturn(statement, state);
    case CStatementKind::kCase:
    case CStatementKind::kDefault:
      failed_ = true;  // a label deep inside a switch
      return;
  }
}

void SymbolicRun::DoDeclare(const CStatement& statement, State& state) {
  const CVariable& variable = activation_->function->variables[statement.index];
  if (variable.type.is_pointer()) {
    failed_ = true;
    return;
  }
  std::vector<z3::expr> values;
  for (const CExprPtr& expr : statement.exprs) values.push_back(Value(*expr, state));
  Cells& cells = state.variables[statement.index];
  if (failed_ || state.live.is_false()) return;
  for (size_t k = 0; k < cells.values.size(); ++k) {
    cells.values[k] = Number(0, variable.type.base.bits);
    cells.set[k] = context_.bool_val(statement.initialised);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    cells.values[variable.type.is_array() ? statement.cells[i] : 0] = values[i];
  }
}

void SymbolicRun::DoIf(const CStatement& statement, State& state) {
  const z3::expr condition = Truth(*statement.exprs[0], state);
  State other = state;
  state.live = Simplified(state.live && condition);
  other.live = Simplified(other.live && !condition);
  Do(*statement.body[0], state);
  if (statement.body.size() > 1) Do(*statement.body[1], other);
  std::vector<State> both;
  both.push_back(std::move(state));
  both.push_back(std::move(other));
  state = Merge(std::move(both));
}

void SymbolicRun::DoLoop(const CStatement& statement, State& state) {
  const bool is_for = statement.kind == CStatementKind::kFor;
  if (is_for) Do(*statement.body[1], state);
  Exits exits;
  Exits* const outer = std::exchange(activation_->exits, &exits);
  bool test = statement.kind != CStatementKind::kDo;
  uint32_t open_turns = 0, turns = 0;
  while (!failed_ && !state.live.is_false()) {
    if (test && statement.exprs[0] != nullptr) {
      const z3::expr condition = Truth(*statement.exprs[0], state);
      if (!condition.is_true()) {
        State left = state;
        left.live = Simplified(state.live && !condition);
        exits.breaks.push_back(std::move(left));
        state.live = Simplified(state.live && condition);
      }
      if (!condition.is_true() && !condition.is_false()) ++open_turns;
    }
    test = true;
    if (state.live.is_false()) break;
    if (open_turns > limits_.unroll || ++turns > limits_.known_turns) {
      unfinished_ = unfinished_ || state.live;
      state.live = context_.bool_val(false);
      break;
    }
    Do(*statement.body[0], state);
    exits.continues.push_back(std::move(state));
    state = Merge(std::exchange(exits.continues, {}));
    if (is_for && statement.exprs[1] != nullptr && !state.live.is_false()) {
      (void)Value(*statement.exprs[1], state);
    }
  }
  activation_->exits = outer;
  exits.breaks.push_back(std::move(state));
  state = Merge(std::move(exits.breaks));
}

bool SymbolicRun::HoldsCase(const CStatement& statement) const {
  if (statement.kind == CStatementKind::kCase || statement.kind == CStatementKind::kDefault) {
    return true;
  }
  return statement.kind != CStatementKind::kSwitch &&
         std::any_of(statement.body.begin(), statement.body.end(),
                     [&](const CStatementPtr& inner) { return HoldsCase(*inner); });
}

// A jump to a case passes over declarations: what they declare has no value then.
void SymbolicRun::ForgetDeclared(const CStatement& statement, State& state) {
  if (statement.kind == CStatementKind::kDeclare) {
    for (z3::expr& set : state.variables[statement.index].set) set = context_.bool_val(false);
  }
  for (const CStatementPtr& inner : statement.body) ForgetDeclared(*inner, state);
}

void SymbolicRun::DoSwitch(const CStatement& statement, State& state) {
  const CStatement& body = *statement.body[0];
  const unsigned bits = statement.exprs[0]->type.base.bits;
  const z3::expr value = Value(*statement.exprs[0], state);
  ForgetDeclared(body, state);
  z3::expr none = context_.bool_val(true);
  bool has_default = false;
  for (const CStatementPtr& inner : body.body) {
    const bool is_label =
        inner->kind == CStatementKind::kCase || inner->kind == CStatementKind::kDefault;
    if (!is_label && HoldsCase(*inner)) failed_ = true;
    if (inner->kind == CStatementKind::kCase) none = none && !(value == Number(inner->value, bits));
    has_default |= inner->kind == CStatementKind::kDefault;
  }
  if (failed_ || body.kind != CStatementKind::kBlock) {
    failed_ = true;
    return;
  }
  none = Simplified(none);
  Exits exits;
  Exits* const outer = std::exchange(activation_->exits, &exits);
  const State entry = std::move(state);
  state = {context_.bool_val(false), {}};
  for (const CStatementPtr& inner : body.body) {
    if (inner->kind != CStatementKind::kCase && inner->kind != CStatementKind::kDefault) {
      Do(*inner, state);
      continue;
    }
    State jumped = entry;
    jumped.live = Simplified(
        entry.live &&
        (inner->kind == CStatementKind::kCase ? value == Number(inner->value, bits) : none));
    std::vector<State> both;
    both.push_back(std::move(state));
    both.push_back(std::move(jumped));
    state = Merge(std::move(both));
  }
  activation_->exits = outer;
  if (!has_default) {
    State past = entry;
    past.live = Simplified(entry.live && none);
    exits.breaks.push_back(std::move(past));
  }
  // A continue inside the switch is the loop's.
  if (outer != nullptr) {
    for (State& next : exits.continues) outer->continues.push_back(std::move(next));
  }
  exits.breaks.push_back(std::move(state));
  state = Merge(std::move(exits.breaks));
}

void SymbolicRun::DoReturn(const CStatement& statement, State& state) {
  z3::expr value = Number(0, activation_->function->result.base.bits);
  if (!statement.exprs.empty()) value = Value(*statement.exprs[0], state);
  activation_->returned.push_back({state.live, value});
  state.live = context_.bool_val(false);
}

}  // namespace tidemill
