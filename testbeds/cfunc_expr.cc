#include "testbeds/cfunc_expr.h"

#include <string_view>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr int kConstantMax = 5;
// The constants that a parameter is compared with: small inputs lie on both sides.
constexpr int kBoundMin = 1;
constexpr int kBoundMax = 4;

Expr Constant(int value) {
  return Expr{.op = 'n', .value = value, .operands = {}};
}

Expr Parameter(char name) {
  return Expr{.op = name, .value = 0, .operands = {}};
}

Expr Binary(char op, Expr left, Expr right) {
  Expr out{.op = op, .value = 0, .operands = {}};
  out.operands.push_back(std::move(left));
  out.operands.push_back(std::move(right));
  return out;
}

// Parameters three times in five, so that most functions use both.
Expr DrawLeaf(Random& random) {
  if (random.Chance(0.6)) return Parameter(random.Chance(0.5) ? 'a' : 'b');
  return Constant(static_cast<int>(random.Below(kConstantMax + 1)));
}

char DrawOperator(Random& random) {
  constexpr std::string_view kOperators = "+-*";
  return kOperators[random.Below(kOperators.size())];
}

// Exactly `operators` binary operators in a shape drawn at random.
Expr DrawArithmetic(int operators, Random& random) {
  if (operators == 0) return DrawLeaf(random);
  const int left = static_cast<int>(random.Below(static_cast<uint64_t>(operators)));
  Expr first = DrawArithmetic(left, random);
  Expr second = DrawArithmetic(operators - 1 - left, random);
  return Binary(DrawOperator(random), std::move(first), std::move(second));
}

Expr DrawChoice(int computed_operators, Random& random) {
  Expr out{.op = '?', .value = 0, .operands = {}};
  const bool first_is_a = random.Chance(0.5);
  out.operands.push_back(Parameter(first_is_a ? 'a' : 'b'));
  if (random.Chance(0.3)) {
    out.operands.push_back(Parameter(first_is_a ? 'b' : 'a'));
  } else {
    out.operands.push_back(Constant(static_cast<int>(random.Between(kBoundMin, kBoundMax))));
  }
  const bool first_is_computed = random.Chance(0.5);
  out.operands.push_back(DrawArithmetic(first_is_computed ? computed_operators : 0, random));
  out.operands.push_back(DrawArithmetic(first_is_computed ? 0 : computed_operators, random));
  return out;
}

bool IsConstant(const Expr& expr, int value) {
  return expr.op == 'n' && expr.value == value;
}

// An operator that does nothing, or that the author could have computed.
bool IsWasteful(const Expr& expr) {
  for (const Expr& operand : expr.operands) {
    if (IsWasteful(operand)) return true;
  }
  if (expr.operands.empty()) return false;
  const Expr& first = expr.operands[0];
  const Expr& second = expr.operands[1];
  if (first.op == 'n' && second.op == 'n') return true;
  switch (expr.op) {
    case '+':
      return IsConstant(first, 0) || IsConstant(second, 0);
    case '-':
      return IsConstant(second, 0) || first == second;
    case '*':
      return IsConstant(first, 0) || IsConstant(second, 0) || IsConstant(first, 1) ||
             IsConstant(second, 1);
    default:
      return first == second || expr.operands[2] == expr.operands[3];
  }
}

int Precedence(char op) {
  switch (op) {
    case '?':
      return 0;
    case '+':
    case '-':
      return 1;
    case '*':
      return 2;
    default:
      return 3;
  }
}

void AppendText(const Expr& expr, std::string& out);

void AppendOperand(const Expr& operand, bool parentheses, std::string& out) {
  if (parentheses) out += '(';
  AppendText(operand, out);
  if (parentheses) out += ')';
}

void AppendText(const Expr& expr, std::string& out) {
  if (expr.op == 'n') {
    out += std::to_string(expr.value);
  } else if (expr.operands.empty()) {
    out += expr.op;
  } else if (expr.op == '?') {
    constexpr std::string_view kBetween = "<?:";
    for (size_t i = 0; i < expr.operands.size(); ++i) {
      AppendOperand(expr.operands[i], expr.operands[i].op == '?', out);
      if (i < kBetween.size()) out += kBetween[i];
    }
  } else {
    const int own = Precedence(expr.op);
    const Expr& right = expr.operands[1];
    AppendOperand(expr.operands[0], Precedence(expr.operands[0].op) < own, out);
    out += expr.op;
    // x-(y-z) and x-(y+z) need them; x+(y-z) and x*(y*z) say the same without.
    const bool same_level_matters = expr.op == '-' && Precedence(right.op) == own;
    AppendOperand(right, Precedence(right.op) < own || same_level_matters, out);
  }
}

size_t CountNodes(const Expr& expr) {
  size_t count = 1;
  for (const Expr& operand : expr.operands) count += CountNodes(operand);
  return count;
}

// The node at `index` in preorder; `index` counts down to it.
Expr* FindNode(Expr& expr, size_t& index) {
  if (index == 0) return &expr;
  --index;
  for (Expr& operand : expr.operands) {
    if (Expr* found = FindNode(operand, index)) return found;
  }
  return nullptr;
}

}  // namespace

Expr DrawExpr(int level, Random& random) {
  TM_CHECK(level >= kCfuncLevelMin && level <= kCfuncLevelMax, "no such level");
  while (true) {
    Expr expr;
    switch (level) {
      case 1:
        expr = DrawArithmetic(1, random);
        break;
      case 2:
        expr = DrawArithmetic(2, random);
        break;
      case 3:
        expr = DrawChoice(0, random);
        break;
      case 4:
        expr = DrawChoice(1, random);
        break;
      default:
        expr = DrawArithmetic(3, random);
        break;
    }
    if (!IsWasteful(expr)) return expr;
  }
}

std::string ExprText(const Expr& expr) {
  std::string out;
  AppendText(expr, out);
  return out;
}

int EvalExpr(const Expr& expr, int a, int b) {
  const auto operand = [&](size_t i) { return EvalExpr(expr.operands[i], a, b); };
  switch (expr.op) {
    case 'a':
      return a;
    case 'b':
      return b;
    case '+':
      return operand(0) + operand(1);
    case '-':
      return operand(0) - operand(1);
    case '*':
      return operand(0) * operand(1);
    case '?':
      return operand(0) < operand(1) ? operand(2) : operand(3);
    default:
      return expr.value;
  }
}

const std::vector<ProbeInput>& CfuncProbes() {
  static const std::vector<ProbeInput> probes = [] {
    std::vector<ProbeInput> all;
    for (int a = -kCfuncProbeBound; a <= kCfuncProbeBound; ++a) {
      for (int b = -kCfuncProbeBound; b <= kCfuncProbeBound; ++b) all.push_back({a, b});
    }
    Random random(StableHash("cfunc probes"));
    random.Shuffle(all);
    all.resize(kCfuncProbeCount);
    return all;
  }();
  return probes;
}

uint64_t BehaviourOf(const Expr& expr) {
  std::string outputs;
  outputs.reserve(kCfuncProbeCount * 3);
  for (const ProbeInput& probe : CfuncProbes()) {
    const auto value = static_cast<uint32_t>(EvalExpr(expr, probe.a, probe.b));
    for (int shift = 0; shift < 32; shift += 8) outputs += static_cast<char>(value >> shift);
  }
  return StableHash(outputs);
}

Expr MutateExpr(const Expr& expr, Random& random) {
  Expr out = expr;
  size_t index = random.Below(CountNodes(expr));
  Expr* node = FindNode(out, index);
  TM_CHECK(node != nullptr, "an index below the number of nodes names one");
  if (node->operands.empty()) {
    const Expr before = *node;
    while (*node == before) *node = DrawLeaf(random);
  } else if (node->op == '?') {
    std::swap(node->operands[2], node->operands[3]);
  } else if (random.Chance(0.3)) {
    std::swap(node->operands[0], node->operands[1]);
  } else {
    const char before = node->op;
    while (node->op == before) node->op = DrawOperator(random);
  }
  return out;
}

}  // namespace tidemill
