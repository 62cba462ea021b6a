// Expressions.
#include <algorithm>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {

JinjaValue JinjaInterpreter::Evaluate(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  if (expr.kind == JinjaExpr::Kind::kConst) return expr.value;
  try {
    const DepthGuard depth(budget_);
    budget_.Step();
    return EvaluateKind(expr, frame);
  } catch (const JinjaError& error) {
    Place(error, expr.begin, expr.end);
  }
}

JinjaValue JinjaInterpreter::EvaluateKind(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  switch (expr.kind) {
    case JinjaExpr::Kind::kConst:
      return expr.value;
    case JinjaExpr::Kind::kName:
      return EvaluateName(expr, frame);
    case JinjaExpr::Kind::kList:
    case JinjaExpr::Kind::kTuple:
    case JinjaExpr::Kind::kMap:
    case JinjaExpr::Kind::kConcat:
      return EvaluateLiteral(expr, frame);
    case JinjaExpr::Kind::kUnary:
      return EvaluateUnary(expr, frame);
    case JinjaExpr::Kind::kBinary:
      return EvaluateBinary(expr, frame);
    case JinjaExpr::Kind::kCompare:
      return EvaluateCompare(expr, frame);
    case JinjaExpr::Kind::kIf:
      return EvaluateIf(expr, frame);
    case JinjaExpr::Kind::kGetAttr:
      return GetAttr(Evaluate(*expr.parts[0], frame), expr.text);
    case JinjaExpr::Kind::kGetItem: {
      const JinjaValue value = Evaluate(*expr.parts[0], frame);
      return GetItem(value, Evaluate(*expr.parts[1], frame));
    }
    case JinjaExpr::Kind::kSlice:
      return EvaluateSlice(expr, frame);
    case JinjaExpr::Kind::kCall:
      return EvaluateCall(expr, frame, nullptr);
    case JinjaExpr::Kind::kFilter:
      return EvaluateFilter(expr, frame, nullptr);
    case JinjaExpr::Kind::kTest: {
      const JinjaValue value = Evaluate(*expr.parts[0], frame);
      return JinjaValue::Bool(CallTest(expr.text, value, EvaluateArgs(expr, frame)));
    }
    case JinjaExpr::Kind::kNameAttr:
      break;
  }
  return {};
}

JinjaValue JinjaInterpreter::EvaluateName(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  const JinjaValue* value = FindVariable(expr.name, *frame);
  return value != nullptr ? *value : JinjaValue::Missing("'" + expr.text + "' is undefined");
}

JinjaValue JinjaInterpreter::EvaluateLiteral(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  std::vector<JinjaValue> items;
  items.reserve(expr.parts.size());
  for (const JinjaExprPtr& part : expr.parts) items.push_back(Evaluate(*part, frame));
  if (expr.kind == JinjaExpr::Kind::kConcat) return JinjaConcat(budget_, items);
  if (expr.kind != JinjaExpr::Kind::kMap) {
    const bool list = expr.kind == JinjaExpr::Kind::kList;
    return MakeSequence(budget_, list ? JinjaSequence::Kind::kList : JinjaSequence::Kind::kTuple,
                        std::move(items));
  }
  std::vector<std::pair<JinjaValue, JinjaValue>> entries;
  for (size_t i = 0; i + 1 < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
  return MakeMap(budget_, std::move(entries));
}

JinjaValue JinjaInterpreter::EvaluateUnary(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  const JinjaValue value = Evaluate(*expr.parts[0], frame);
  if (expr.text == "not") return JinjaValue::Bool(!value.Truth());
  if (expr.text == "-") return JinjaNegate(value);
  if (value.IsBool()) return JinjaValue::Int(value.integer());
  if (!value.IsNumber()) JinjaNegate(value);  // says what is wrong
  return value;
}

JinjaValue JinjaInterpreter::EvaluateBinary(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  JinjaValue left = Evaluate(*expr.parts[0], frame);
  if (expr.text == "and") return left.Truth() ? Evaluate(*expr.parts[1], frame) : left;
  if (expr.text == "or") return left.Truth() ? left : Evaluate(*expr.parts[1], frame);
  const JinjaValue right = Evaluate(*expr.parts[1], frame);
  if (expr.text == "+") return JinjaAdd(budget_, left, right);
  if (expr.text == "*") return JinjaMultiply(budget_, left, right);
  if (expr.text == "%" && left.IsText()) return PercentFormat(budget_, left.text(), right);
  return JinjaArithmetic(expr.text, left, right);
}

bool JinjaInterpreter::CompareOne(std::string_view op, const JinjaValue& left,
                                  const JinjaValue& right) {
  if (op == "==") return JinjaEquals(left, right, &budget_);
  if (op == "!=") return !JinjaEquals(left, right, &budget_);
  if (op == "in") return JinjaContains(budget_, right, left);
  if (op == "not in") return !JinjaContains(budget_, right, left);
  const int order = JinjaCompare(left, right);
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

JinjaValue JinjaInterpreter::EvaluateCompare(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  JinjaValue left = Evaluate(*expr.parts[0], frame);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    JinjaValue right = Evaluate(*expr.parts[i + 1], frame);
    if (!CompareOne(expr.operators[i], left, right)) return JinjaValue::Bool(false);
    left = std::move(right);
  }
  return JinjaValue::Bool(true);
}

JinjaValue JinjaInterpreter::EvaluateIf(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  if (Evaluate(*expr.parts[0], frame).Truth()) return Evaluate(*expr.parts[1], frame);
  if (expr.parts[2] != nullptr) return Evaluate(*expr.parts[2], frame);
  return JinjaValue::Missing("an inline if-expression evaluated to false and has no else part");
}

JinjaValue JinjaInterpreter::EvaluateSlice(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  const JinjaValue value = Evaluate(*expr.parts[0], frame);
  JinjaValue bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.parts[i + 1] != nullptr) bounds[i] = Evaluate(*expr.parts[i + 1], frame);
  }
  return JinjaSlice(budget_, value, bounds[0], bounds[1], bounds[2]);
}

JinjaArgs JinjaInterpreter::EvaluateArgs(const JinjaExpr& expr, const JinjaFramePtr& frame) {
  JinjaArgs args;
  args.positional.reserve(expr.args.size());
  for (const JinjaExprPtr& arg : expr.args) args.positional.push_back(Evaluate(*arg, frame));
  for (const auto& [name, value] : expr.named) {
    args.named.emplace_back(name, Evaluate(*value, frame));
  }
  if (expr.star_args != nullptr) {
    const auto more = JinjaIterate(budget_, Evaluate(*expr.star_args, frame));
    args.positional.insert(args.positional.end(), more->items.begin(), more->items.end());
  }
  if (expr.star_kwargs != nullptr) {
    const JinjaValue more = Evaluate(*expr.star_kwargs, frame);
    if (!more.IsMap()) JinjaFail("the argument behind ** must be a mapping");
    for (const auto& [name, value] : more.map().entries) {
      args.named.emplace_back(TextArgument(name, "a keyword").bytes, value);
    }
  }
  return args;
}

JinjaValue JinjaInterpreter::EvaluateFilter(const JinjaExpr& expr, const JinjaFramePtr& frame,
                                            const JinjaValue* value) {
  JinjaValue input;
  if (expr.parts[0] == nullptr) {
    input = *value;
  } else if (value != nullptr) {
    input = EvaluateFilter(*expr.parts[0], frame, value);
  } else {
    input = Evaluate(*expr.parts[0], frame);
  }
  return CallFilter(expr.text, input, EvaluateArgs(expr, frame));
}

JinjaValue JinjaInterpreter::EvaluateCall(const JinjaExpr& expr, const JinjaFramePtr& frame,
                                          const JinjaValue* caller) {
  const JinjaExpr& callee = *expr.parts[0];
  if (callee.kind == JinjaExpr::Kind::kGetAttr && caller == nullptr) {
    // A method is called without making a value of it first.
    const JinjaValue object = Evaluate(*callee.parts[0], frame);
    if (const JinjaFilterFn method = FindMethod(object, callee.text)) {
      if (object.IsText()) budget_.Step(object.text().bytes.size() / 128);
      return method(*this, object, EvaluateArgs(expr, frame));
    }
    const JinjaValue function = GetAttr(object, callee.text);
    return Call(function, EvaluateArgs(expr, frame));
  }
  const JinjaValue function = Evaluate(callee, frame);
  JinjaArgs args = EvaluateArgs(expr, frame);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  return Call(function, args);
}

JinjaValue JinjaInterpreter::Call(const JinjaValue& callee, const JinjaArgs& args) {
  if (callee.IsUndefined()) FailUndefined(callee);
  if (const auto* function = callee.callable()) {
    const JinjaValue::CallableRef kept = *function;  // it may be replaced while it runs
    return kept->call(*this, args);
  }
  if (const auto* ref = callee.loop()) {
    const JinjaValue::LoopRef loop = *ref;
    if (loop->statement == nullptr) JinjaFail("the loop must have the \"recursive\" modifier");
    if (args.positional.size() != 1) JinjaFail("loop() takes one argument");
    TextWriter captured(budget_);
    TextWriter* const before = std::exchange(out_, &captured);
    try {
      ExecuteFor(*loop->statement, args.positional[0], loop->frame, loop->depth + 1);
    } catch (...) {
      out_ = before;
      throw;
    }
    out_ = before;
    return captured.Done();
  }
  JinjaFail("'" + std::string(callee.TypeName()) + "' object is not callable");
}

JinjaValue JinjaInterpreter::CallFilter(std::string_view name, const JinjaValue& value,
                                        const JinjaArgs& args) {
  const JinjaFilterFn filter = FindFilter(name);
  if (filter == nullptr) JinjaFail("no filter named '" + std::string(name) + "'");
  const DepthGuard depth(budget_);
  budget_.Step(1 + (value.IsText() ? value.text().bytes.size() / 128 : 0));
  return filter(*this, value, args);
}

bool JinjaInterpreter::CallTest(std::string_view name, const JinjaValue& value,
                                const JinjaArgs& args) {
  const JinjaTestFn test = FindTest(name);
  if (test == nullptr) JinjaFail("no test named '" + std::string(name) + "'");
  budget_.Step(1 + (value.IsText() ? value.text().bytes.size() / 128 : 0));
  return test(*this, value, args);
}

}  // namespace tidemill
