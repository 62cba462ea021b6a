#include "conversation/jinja/value_ops.h"

#include <algorithm>
#include <cmath>

#include "conversation/jinja/text_writer.h"

namespace tidemill {
namespace {

using SequenceKind = JinjaSequence::Kind;

bool IsTuple(const JinjaValue& value) {
  return value.IsSequence(SequenceKind::kTuple) || value.IsSequence(SequenceKind::kGroup);
}

bool SequencesEqual(const JinjaValue& a, const JinjaValue& b, RenderBudget* budget) {
  if (a.sequence() == b.sequence()) return true;
  const bool comparable = (IsTuple(a) && IsTuple(b)) || a.sequence()->kind == b.sequence()->kind;
  const auto& x = a.sequence()->items;
  const auto& y = b.sequence()->items;
  return comparable && a.sequence()->kind != SequenceKind::kGenerator &&
         std::equal(
             x.begin(), x.end(), y.begin(), y.end(),
             [&](const JinjaValue& p, const JinjaValue& q) { return JinjaEquals(p, q, budget); });
}

bool MapsEqual(const JinjaMap& a, const JinjaMap& b, RenderBudget* budget) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const JinjaValue* other = b.Find(entry.first);
    return other != nullptr && JinjaEquals(entry.second, *other, budget);
  });
}

int Sign(double a, double b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

[[noreturn]] void Unsupported(std::string_view op, const JinjaValue& a, const JinjaValue& b) {
  if (a.IsUndefined()) FailUndefined(a);
  if (b.IsUndefined()) FailUndefined(b);
  JinjaFail("unsupported operand type(s) for " + std::string(op) + ": '" +
            std::string(a.TypeName()) + "' and '" + std::string(b.TypeName()) + "'");
}

JinjaValue Repeat(RenderBudget& budget, const JinjaValue& value, JinjaInt times) {
  if (value.IsText()) {
    TextWriter out(budget);
    if (value.text().bytes.empty()) return value;
    for (JinjaInt i = 0; i < times; ++i) {
      budget.Step();
      out.Append(value.text());
    }
    return out.Done();
  }
  std::vector<JinjaValue> items;
  const auto& source = value.sequence()->items;
  MemoryLease lease(&budget);
  for (JinjaInt i = 0; i < times && !source.empty(); ++i) {
    budget.Step();
    lease.Add(source.size() * sizeof(JinjaValue));
    items.insert(items.end(), source.begin(), source.end());
  }
  return MakeSequence(budget, value.sequence()->kind, std::move(items));
}

JinjaValue IntArithmetic(std::string_view op, JinjaInt a, JinjaInt b) {
  JinjaInt out = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &out);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &out);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &out);
  } else if (b == 0) {
    JinjaFail("division by zero");
  } else if (op == "/") {
    return JinjaValue(static_cast<double>(a) / static_cast<double>(b));
  } else if (b == -1) {
    if (op == "//") overflow = __builtin_sub_overflow(JinjaInt{0}, a, &out);
  } else {
    out = op == "%" ? a % b : a / b;
    const bool inexact = a % b != 0 && (a < 0) != (b < 0);  // Python rounds down
    if (inexact) out += op == "%" ? b : -1;
  }
  if (overflow) JinjaFail("an integer is too large");
  return JinjaValue::Int(out);
}

JinjaValue RealArithmetic(std::string_view op, double a, double b) {
  if (op == "+") return JinjaValue(a + b);
  if (op == "-") return JinjaValue(a - b);
  if (op == "*") return JinjaValue(a * b);
  if (b == 0) JinjaFail("float division by zero");
  if (op == "/") return JinjaValue(a / b);
  double mod = std::fmod(a, b);
  if (mod != 0 && (mod < 0) != (b < 0)) mod += b;
  if (op == "%") return JinjaValue(mod);
  return JinjaValue(std::floor((a - mod) / b + 0.5));
}

JinjaValue Power(const JinjaValue& a, const JinjaValue& b) {
  if (a.IsFloat() || b.IsFloat() || b.integer() < 0) {
    return JinjaValue(std::pow(AsDouble(a), AsDouble(b)));
  }
  JinjaInt out = 1;
  const JinjaInt base = a.integer();
  if (base == 0 || base == 1) return JinjaValue::Int(b.integer() == 0 ? 1 : base);
  for (JinjaInt i = 0; i < b.integer(); ++i) {  // ends by overflow after 127 rounds; but -1
    if (base == -1) return JinjaValue::Int(b.integer() % 2 == 0 ? 1 : -1);
    if (__builtin_mul_overflow(out, base, &out)) JinjaFail("an integer is too large");
  }
  return JinjaValue::Int(out);
}

}  // namespace

void FailUndefined(const JinjaValue& value) {
  JinjaFail(value.why());
}

double AsDouble(const JinjaValue& number) {
  return number.IsFloat() ? number.real() : static_cast<double>(number.integer());
}

int64_t IntArgument(const JinjaValue& value, std::string_view what) {
  if (value.IsUndefined()) FailUndefined(value);
  if (!value.IsInt() && !value.IsBool()) {
    JinjaFail(std::string(what) + " must be an integer, got '" + std::string(value.TypeName()) +
              "'");
  }
  constexpr JinjaInt kMax = int64_t{1} << 62;
  return static_cast<int64_t>(std::clamp(value.integer(), -kMax, kMax));
}

bool JinjaEquals(const JinjaValue& a, const JinjaValue& b, RenderBudget* budget) {
  if (budget != nullptr) budget->Step(1 + (a.IsText() ? a.text().bytes.size() / 128 : 0));
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsFloat() || b.IsFloat()) return AsDouble(a) == AsDouble(b);
    return a.integer() == b.integer();
  }
  if (a.IsText() && b.IsText()) return a.text().bytes == b.text().bytes;
  if (a.IsSequence() && b.IsSequence()) return SequencesEqual(a, b, budget);
  if (a.IsMap() && b.IsMap()) return &a.map() == &b.map() || MapsEqual(a.map(), b.map(), budget);
  if (a.IsNone() || a.IsUndefined()) {
    return a.IsNone() == b.IsNone() && a.IsUndefined() == b.IsUndefined();
  }
  if (a.name_space() != nullptr && b.name_space() != nullptr) {
    return *a.name_space() == *b.name_space();
  }
  if (a.callable() != nullptr && b.callable() != nullptr) return *a.callable() == *b.callable();
  return false;
}

int JinjaCompare(const JinjaValue& a, const JinjaValue& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.IsFloat() || b.IsFloat()) return Sign(AsDouble(a), AsDouble(b));
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  if (a.IsText() && b.IsText()) return a.text().bytes.compare(b.text().bytes);
  const bool lists = a.IsSequence(SequenceKind::kList) && b.IsSequence(SequenceKind::kList);
  if (!lists && !(IsTuple(a) && IsTuple(b))) {
    if (a.IsUndefined()) FailUndefined(a);
    if (b.IsUndefined()) FailUndefined(b);
    JinjaFail("'" + std::string(a.TypeName()) + "' and '" + std::string(b.TypeName()) +
              "' cannot be compared");
  }
  const auto& x = a.sequence()->items;
  const auto& y = b.sequence()->items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!JinjaEquals(x[i], y[i])) return JinjaCompare(x[i], y[i]);
  }
  return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
}

bool JinjaContains(RenderBudget& budget, const JinjaValue& container, const JinjaValue& item) {
  if (container.IsText()) {
    if (!item.IsText()) {
      JinjaFail("'in <string>' requires string as left operand, not " +
                std::string(item.TypeName()));
    }
    budget.Step(container.text().bytes.size() / 64);
    return container.text().bytes.find(item.text().bytes) != std::string::npos;
  }
  if (container.IsMap()) {
    if (!item.IsText()) budget.Step(container.map().entries.size());
    return container.map().Find(item) != nullptr;
  }
  const JinjaValue::SequenceRef items = JinjaIterate(budget, container);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const JinjaValue& other) { return JinjaEquals(other, item, &budget); });
}

JinjaValue JinjaAdd(RenderBudget& budget, const JinjaValue& a, const JinjaValue& b) {
  if (a.IsText() && b.IsText()) {
    TextWriter out(budget);
    const bool markup = a.text().markup || b.text().markup;
    markup ? out.AppendEscaped(a.text()) : out.Append(a.text());
    markup ? out.AppendEscaped(b.text()) : out.Append(b.text());
    return out.Done(markup);
  }
  const bool lists = a.IsSequence(SequenceKind::kList) && b.IsSequence(SequenceKind::kList);
  if (lists || (IsTuple(a) && IsTuple(b))) {
    budget.Step((a.sequence()->items.size() + b.sequence()->items.size()) / 8);
    std::vector<JinjaValue> items = a.sequence()->items;
    items.insert(items.end(), b.sequence()->items.begin(), b.sequence()->items.end());
    return MakeSequence(budget, lists ? SequenceKind::kList : SequenceKind::kTuple,
                        std::move(items));
  }
  if (a.IsText() && !b.IsUndefined()) {
    JinjaFail("can only concatenate str (not \"" + std::string(b.TypeName()) + "\") to str");
  }
  return JinjaArithmetic("+", a, b);
}

JinjaValue JinjaMultiply(RenderBudget& budget, const JinjaValue& a, const JinjaValue& b) {
  const auto repeats = [](const JinjaValue& value) {
    return value.IsText() || value.IsSequence(SequenceKind::kList) || IsTuple(value);
  };
  const auto counts = [](const JinjaValue& value) { return value.IsInt() || value.IsBool(); };
  if (repeats(a) && counts(b)) return Repeat(budget, a, b.integer());
  if (counts(a) && repeats(b)) return Repeat(budget, b, a.integer());
  return JinjaArithmetic("*", a, b);
}

JinjaValue JinjaArithmetic(std::string_view op, const JinjaValue& a, const JinjaValue& b) {
  if (!a.IsNumber() || !b.IsNumber()) Unsupported(op, a, b);
  if (op == "**") return Power(a, b);
  if (a.IsFloat() || b.IsFloat()) return RealArithmetic(op, AsDouble(a), AsDouble(b));
  return IntArithmetic(op, a.integer(), b.integer());
}

JinjaValue JinjaNegate(const JinjaValue& value) {
  if (value.IsUndefined()) FailUndefined(value);
  if (!value.IsNumber()) {
    JinjaFail("bad operand type for unary -: '" + std::string(value.TypeName()) + "'");
  }
  if (value.IsFloat()) return JinjaValue(-value.real());
  return IntArithmetic("-", 0, value.integer());
}

JinjaValue JinjaConcat(RenderBudget& budget, const std::vector<JinjaValue>& parts) {
  TextWriter out(budget);
  for (const JinjaValue& part : parts) WriteStr(out, part);
  return out.Done();
}

size_t JinjaLength(const JinjaValue& value) {
  if (value.IsText()) return CountCharacters(value.text().bytes);
  if (value.IsMap()) return value.map().entries.size();
  if (value.IsUndefined()) return 0;
  if (value.IsSequence() && value.sequence()->kind != SequenceKind::kGenerator) {
    return value.sequence()->items.size();
  }
  JinjaFail("object of type '" + std::string(value.TypeName()) + "' has no len()");
}

}  // namespace tidemill
