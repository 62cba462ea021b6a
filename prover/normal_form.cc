#include "prover/normal_form.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tidemill {
namespace {

constexpr size_t kTermsMax = 64;
constexpr int kDegreeMax = 12;
constexpr Polynomial::Coefficient kCoefficientMax = Polynomial::Coefficient{1} << 90;
constexpr int kFormsMax = 256;

using Wide = Polynomial::Coefficient;
using Form = std::shared_ptr<const NormalForm>;  // shared: see NormalForm

// A form and the interval its values lie in.
struct Known {
  Form form;
  Wide low = 0;
  Wide high = 0;
};

Form FormOf(Polynomial value) {
  auto form = std::make_shared<NormalForm>();
  form->value = std::move(value);
  return form;
}

Wide CeilingOf(Wide a, Wide b) {
  const Wide quotient = a / b;
  return quotient * b < a ? quotient + 1 : quotient;
}

// p < 0 in the one way in which it is always written: coefficients without a common factor, the
// first of them positive. True: it now says the opposite.
bool Canonical(Polynomial& p, bool is_equality) {
  Wide divisor = 0;
  for (const auto& [exponents, coefficient] : p.terms()) {
    const bool is_constant =
        std::all_of(exponents.begin(), exponents.end(), [](uint8_t e) { return e == 0; });
    if (is_constant && !is_equality) continue;
    Wide a = coefficient < 0 ? -coefficient : coefficient;
    for (Wide b = divisor; b != 0;) std::tie(a, b) = std::pair(b, a % b);
    divisor = a;
  }
  if (divisor == 0) return false;
  for (auto it = p.terms().begin(); it != p.terms().end();) {
    const bool is_constant =
        std::all_of(it->first.begin(), it->first.end(), [](uint8_t e) { return e == 0; });
    // g r + c < 0 is r < -c/g, and r is whole.
    it->second =
        is_constant && !is_equality ? -CeilingOf(-it->second, divisor) : it->second / divisor;
    it = it->second == 0 ? p.terms().erase(it) : std::next(it);
  }
  if (p.terms().empty() || p.terms().rbegin()->second > 0) return false;
  p.Negate();
  if (is_equality) return false;
  // p < 0 is not (-p - 1 < 0).
  const size_t parameters = p.terms().begin()->first.size();
  p.Add(Polynomial::OfConstant(1, parameters), -1);
  return true;
}

// Follows a function whose every path is a return of such expressions.
class FormBuilder {
 public:
  FormBuilder(const CFunction& function, const InputSpace& space)
      : function_(function), parameters_(space.size()), values_(function.variables.size()) {
    for (size_t i = 0; i < space.size(); ++i) {
      const bool is_wide = space[i].type.bits == 64 && !space[i].type.is_signed;
      const auto wide = [&](int64_t n) {
        return is_wide ? Wide{static_cast<uint64_t>(n)} : Wide{n};
      };
      values_[i] = Known{FormOf(Polynomial::OfParameter(i, parameters_)), wide(space[i].low),
                         wide(space[i].high)};
    }
  }

  std::optional<NormalForm> Run() {
    std::vector<const CStatement*> rest = {function_.body.get()};
    const std::optional<Known> result = Follow(std::move(rest));
    if (!result) return std::nullopt;
    return *result->form;
  }

 private:
  // The value that the statements return, the last of `rest` first.
  std::optional<Known> Follow(std::vector<const CStatement*> rest) {
    while (!rest.empty()) {
      const CStatement& statement = *rest.back();
      rest.pop_back();
      switch (statement.kind) {
        case CStatementKind::kBlock:
          for (auto it = statement.body.rbegin(); it != statement.body.rend(); ++it) {
            rest.push_back(it->get());
          }
          break;
        case CStatementKind::kReturn:
          return statement.exprs.empty() ? std::nullopt : Value(*statement.exprs[0]);
        case CStatementKind::kDeclare: {
          const CVariable& variable = function_.variables[statement.index];
          if (!statement.initialised || !variable.type.is_int()) return std::nullopt;
          const auto value = Value(*statement.exprs[0]);
          if (!value) return std::nullopt;
          values_[statement.index] = value;
          break;
        }
        case CStatementKind::kIf:
          return FollowIf(statement, std::move(rest));
        default:
          return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::optional<Known> FollowIf(const CStatement& statement, std::vector<const CStatement*> rest) {
    if (++forms_ > kFormsMax) return std::nullopt;
    const auto before = values_;
    std::vector<const CStatement*> yes_rest = rest, no_rest = std::move(rest);
    yes_rest.push_back(statement.body[0].get());
    if (statement.body.size() > 1) no_rest.push_back(statement.body[1].get());
    const auto yes = Follow(std::move(yes_rest));
    values_ = before;
    const auto no = Follow(std::move(no_rest));
    values_ = before;
    if (!yes || !no) return std::nullopt;
    return Choose(*statement.exprs[0], *yes, *no);
  }

  std::optional<Known> Value(const CExpr& expr) {
    if (++forms_ > kFormsMax || !expr.type.is_int()) return std::nullopt;
    switch (expr.kind) {
      case CExprKind::kConstant: {
        const bool is_wide = expr.type.base == kCUnsignedLong;
        if (is_wide && expr.value < 0) return std::nullopt;
        return Known{FormOf(Polynomial::OfConstant(expr.value, parameters_)), expr.value,
                     expr.value};
      }
      case CExprKind::kVariable:
        if (expr.index >= values_.size()) return std::nullopt;
        return values_[expr.index];
      case CExprKind::kConvert:
        if (!expr.args[0]->type.is_int() || expr.type.base.is_bool) return std::nullopt;
        return Inside(Value(*expr.args[0]), expr.type.base);
      case CExprKind::kNegate: {
        const Known zero{FormOf(Polynomial::OfConstant(0, parameters_)), 0, 0};
        return Combined(COp::kSub, zero, Value(*expr.args[0]), expr.type.base);
      }
      case CExprKind::kBinary: {
        const auto left = Value(*expr.args[0]);
        return left ? Combined(expr.op, *left, Value(*expr.args[1]), expr.type.base) : std::nullopt;
      }
      case CExprKind::kChoose: {
        const auto yes = Value(*expr.args[1]), no = Value(*expr.args[2]);
        if (!yes || !no) return std::nullopt;
        return Choose(*expr.args[0], *yes, *no);
      }
      default:
        return std::nullopt;
    }
  }

  // The value, if the type can hold it whatever the input is.
  static std::optional<Known> Inside(std::optional<Known> known, CIntType type) {
    const bool is_wide = type.bits == 64 && !type.is_signed;
    const Wide high = is_wide ? Wide{~uint64_t{0}} : Wide{HighestOf(type)};
    if (!known || known->low < LowestOf(type) || known->high > high) return std::nullopt;
    return known;
  }

  std::optional<Known> Combined(COp op, const Known& left, const std::optional<Known>& right,
                                CIntType type) {
    if (!right || left.form->is_choice || right->form->is_choice) return std::nullopt;
    Polynomial value = left.form->value;
    Known known;
    if (op == COp::kAdd) {
      if (!value.Add(right->form->value, 1)) return std::nullopt;
      known = {nullptr, left.low + right->low, left.high + right->high};
    } else if (op == COp::kSub) {
      if (!value.Add(right->form->value, -1)) return std::nullopt;
      known = {nullptr, left.low - right->high, left.high - right->low};
    } else if (op == COp::kMul) {
      constexpr Wide kBoundMax = Wide{1} << 63;
      for (const Wide bound : {left.low, left.high, right->low, right->high}) {
        if (bound > kBoundMax || bound < -kBoundMax) return std::nullopt;
      }
      if (!value.Multiply(right->form->value)) return std::nullopt;
      const Wide products[] = {left.low * right->low, left.low * right->high,
                               left.high * right->low, left.high * right->high};
      known = {nullptr, *std::min_element(products, products + 4),
               *std::max_element(products, products + 4)};
    } else {
      return std::nullopt;
    }
    known.form = FormOf(std::move(value));
    return Inside(std::move(known), type);
  }

  std::optional<Known> Choose(const CExpr& condition, const Known& yes, const Known& no) {
    if (condition.kind == CExprKind::kNot) return Choose(*condition.args[0], no, yes);
    if (condition.kind != CExprKind::kCompare || !condition.args[0]->type.is_int()) {
      return std::nullopt;
    }
    auto left = Value(*condition.args[0]), right = Value(*condition.args[1]);
    if (!left || !right || left->form->is_choice || right->form->is_choice) return std::nullopt;
    COp op = condition.op;
    // Down to < and ==, perhaps the other way round.
    if (op == COp::kGt || op == COp::kLe) std::swap(left, right);
    bool turned = op == COp::kGe || op == COp::kLe || op == COp::kNe;
    const bool is_equality = op == COp::kEq || op == COp::kNe;
    auto form = std::make_shared<NormalForm>();
    form->value = left->form->value;
    if (!form->value.Add(right->form->value, -1)) return std::nullopt;
    form->is_choice = true;
    form->is_equality = is_equality;
    turned ^= Canonical(form->value, is_equality);
    form->yes = turned ? no.form : yes.form;
    form->no = turned ? yes.form : no.form;
    Known known{form, std::min(yes.low, no.low), std::max(yes.high, no.high)};
    if (*form->yes == *form->no) {
      known.form = form->yes;
    } else if (form->value.IsConstant()) {
      const Wide value = form->value.ConstantTerm();
      known.form = (is_equality ? value == 0 : value < 0) ? form->yes : form->no;
    }
    return known;
  }

  const CFunction& function_;
  const size_t parameters_;
  std::vector<std::optional<Known>> values_;
  int forms_ = 0;
};

}  // namespace

Polynomial Polynomial::OfConstant(int64_t value, size_t parameters) {
  Polynomial p;
  if (value != 0) p.terms_[Exponents(parameters, 0)] = value;
  return p;
}

Polynomial Polynomial::OfParameter(size_t index, size_t parameters) {
  Polynomial p;
  Exponents exponents(parameters, 0);
  exponents[index] = 1;
  p.terms_[exponents] = 1;
  return p;
}

bool Polynomial::Add(const Polynomial& other, int64_t factor) {
  for (const auto& [exponents, coefficient] : other.terms_) {
    Coefficient& mine = terms_[exponents];
    mine += coefficient * factor;
    if (mine > kCoefficientMax || mine < -kCoefficientMax) return false;
    if (mine == 0) terms_.erase(exponents);
  }
  return terms_.size() <= kTermsMax;
}

bool Polynomial::Multiply(const Polynomial& other) {
  std::map<Exponents, Coefficient> product;
  // Products of two coefficients stay within 128 bits.
  constexpr Coefficient kFactorMax = Coefficient{1} << 62;
  for (const auto& [left, a] : terms_) {
    for (const auto& [right, b] : other.terms_) {
      if (a > kFactorMax || a < -kFactorMax || b > kFactorMax || b < -kFactorMax) return false;
      Exponents exponents = left;
      int degree = 0;
      for (size_t i = 0; i < exponents.size(); ++i) {
        exponents[i] = static_cast<uint8_t>(exponents[i] + right[i]);
        degree += exponents[i];
      }
      if (degree > kDegreeMax) return false;
      Coefficient& sum = product[exponents];
      sum += a * b;
      if (sum > kCoefficientMax || sum < -kCoefficientMax) return false;
    }
  }
  std::erase_if(product, [](const auto& term) { return term.second == 0; });
  terms_ = std::move(product);
  return terms_.size() <= kTermsMax;
}

void Polynomial::Negate() {
  for (auto& [exponents, coefficient] : terms_) coefficient = -coefficient;
}

bool Polynomial::IsConstant() const {
  return terms_.empty() || (terms_.size() == 1 &&
                            std::all_of(terms_.begin()->first.begin(), terms_.begin()->first.end(),
                                        [](uint8_t e) { return e == 0; }));
}

Polynomial::Coefficient Polynomial::ConstantTerm() const {
  return IsConstant() && !terms_.empty() ? terms_.begin()->second : 0;
}

bool NormalForm::operator==(const NormalForm& other) const {
  if (is_choice != other.is_choice || is_equality != other.is_equality || value != other.value) {
    return false;
  }
  return !is_choice || (*yes == *other.yes && *no == *other.no);
}

std::optional<NormalForm> NormalFormOf(const CProgram& program, const InputSpace& space) {
  const CFunction& function = program.functions[program.entry];
  return FormBuilder(function, space).Run();
}

}  // namespace tidemill
