// Tests: what stands behind `is`.
#include <cmath>
#include <unordered_map>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/interpreter.h"

namespace tidemill {
namespace {

using TestedKind = JinjaSequence::Kind;

const JinjaValue& OneArgument(const JinjaArgs& args) {
  if (args.positional.size() != 1 || !args.named.empty()) JinjaFail("the test needs one argument");
  return args.positional[0];
}

bool IsDefined(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return !value.IsUndefined();
}
bool IsUndefined(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsUndefined();
}
bool IsNone(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsNone();
}
bool IsBoolean(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsBool();
}
bool IsTrue(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsBool() && value.integer() == 1;
}
bool IsFalse(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsBool() && value.integer() == 0;
}
bool IsInteger(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsInt();
}
bool IsFloat(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsFloat();
}
bool IsNumber(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsNumber();
}
bool IsString(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsText();
}
bool IsMapping(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsMap();
}
bool IsCallable(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.callable() != nullptr || value.loop() != nullptr || value.IsUndefined();
}
bool IsIterable(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsText() || value.IsSequence() || value.IsMap() || value.IsUndefined() ||
         value.loop() != nullptr;
}
bool IsSequence(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  // Whatever has a length and items by index; so has what is undefined.
  if (value.IsSequence()) {
    return value.sequence()->kind != TestedKind::kGenerator &&
           value.sequence()->kind != TestedKind::kView;
  }
  return value.IsText() || value.IsMap() || value.IsUndefined();
}
bool IsEscaped(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsText() && value.text().markup;
}

JinjaInt Remainder(const JinjaValue& value, const JinjaValue& by) {
  const JinjaValue rest = JinjaArithmetic("%", value, by);
  return rest.IsFloat()
             ? (rest.real() == std::floor(rest.real()) ? static_cast<JinjaInt>(rest.real()) : -1)
             : rest.integer();
}
bool IsEven(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return Remainder(value, JinjaValue::Int(2)) == 0;
}
bool IsOdd(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return Remainder(value, JinjaValue::Int(2)) == 1;
}
bool IsDivisibleBy(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  return Remainder(value, OneArgument(args)) == 0;
}

bool IsEqual(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return JinjaEquals(value, OneArgument(args), &in.budget());
}
bool IsNotEqual(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return !JinjaEquals(value, OneArgument(args), &in.budget());
}
bool IsLess(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  return JinjaCompare(value, OneArgument(args)) < 0;
}
bool IsLessEqual(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  return JinjaCompare(value, OneArgument(args)) <= 0;
}
bool IsGreater(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  return JinjaCompare(value, OneArgument(args)) > 0;
}
bool IsGreaterEqual(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  return JinjaCompare(value, OneArgument(args)) >= 0;
}
bool IsIn(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs& args) {
  return JinjaContains(in.budget(), OneArgument(args), value);
}

bool IsSame(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs& args) {
  const JinjaValue& other = OneArgument(args);
  if (value.IsSequence() && other.IsSequence()) return value.sequence() == other.sequence();
  if (value.IsMap() && other.IsMap()) return &value.map() == &other.map();
  return value.TypeName() == other.TypeName() && JinjaEquals(value, other);
}

// Whether there are letters with case, all of them as asked.
bool AllCased(JinjaInterpreter& in, const JinjaValue& value, bool upper) {
  const JinjaValue text = ToText(in.budget(), value);
  TextReader reader(text.text());
  TextCharacter c;
  bool some = false;
  while (reader.Next(c)) {
    const bool is_upper = LowerOf(c.code) != c.code;
    const bool is_lower = UpperOf(c.code) != c.code;
    if (!is_upper && !is_lower) continue;
    if (is_upper != upper) return false;
    some = true;
  }
  return some;
}
bool IsUpper(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  return AllCased(in, value, true);
}
bool IsLower(JinjaInterpreter& in, const JinjaValue& value, const JinjaArgs&) {
  return AllCased(in, value, false);
}
bool IsFilter(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsText() && FindFilter(value.text().bytes) != nullptr;
}
bool IsTest(JinjaInterpreter&, const JinjaValue& value, const JinjaArgs&) {
  return value.IsText() && FindTest(value.text().bytes) != nullptr;
}

constexpr JinjaTestEntry kTests[] = {
    {"defined", IsDefined},   {"undefined", IsUndefined},
    {"none", IsNone},         {"boolean", IsBoolean},
    {"true", IsTrue},         {"false", IsFalse},
    {"integer", IsInteger},   {"float", IsFloat},
    {"number", IsNumber},     {"string", IsString},
    {"mapping", IsMapping},   {"callable", IsCallable},
    {"iterable", IsIterable}, {"sequence", IsSequence},
    {"escaped", IsEscaped},   {"even", IsEven},
    {"odd", IsOdd},           {"divisibleby", IsDivisibleBy},
    {"eq", IsEqual},          {"equalto", IsEqual},
    {"==", IsEqual},          {"ne", IsNotEqual},
    {"!=", IsNotEqual},       {"lt", IsLess},
    {"lessthan", IsLess},     {"<", IsLess},
    {"le", IsLessEqual},      {"<=", IsLessEqual},
    {"gt", IsGreater},        {"greaterthan", IsGreater},
    {">", IsGreater},         {"ge", IsGreaterEqual},
    {">=", IsGreaterEqual},   {"in", IsIn},
    {"sameas", IsSame},       {"upper", IsUpper},
    {"lower", IsLower},       {"filter", IsFilter},
    {"test", IsTest},
};

}  // namespace

JinjaTestFn FindTest(std::string_view name) {
  static const auto* const tests = [] {
    auto* map = new std::unordered_map<std::string_view, JinjaTestFn>;
    for (const JinjaTestEntry& entry : kTests) map->emplace(entry.name, entry.call);
    return map;
  }();
  const auto it = tests->find(name);
  return it == tests->end() ? nullptr : it->second;
}

}  // namespace tidemill
