// Nodes of the tree with their types, as C's rules for conversions make them.
#include <algorithm>

#include "core/text.h"
#include "prover/c_parser.h"

namespace tidemill {
namespace {

constexpr uint16_t kTreeDepthMax = 500;

}  // namespace

CExprPtr CParser::New(CExprKind kind, CType type) {
  auto expr = std::make_unique<CExpr>();
  expr->kind = kind;
  expr->type = std::move(type);
  expr->line = tokens_[at_ > 0 ? at_ - 1 : 0].line;
  return expr;
}

void CParser::Adopt(CExpr& parent, CExprPtr child) {
  if (child == nullptr) return;
  parent.depth = std::max<uint16_t>(parent.depth, static_cast<uint16_t>(child->depth + 1));
  if (parent.depth > kTreeDepthMax) FailSubset("an expression that is nested too deep");
  parent.args.push_back(std::move(child));
}

CExprPtr CParser::Constant(int64_t value, CIntType type) {
  CExprPtr expr = New(CExprKind::kConstant, IntType(type));
  expr->value = ConvertedTo(type, value);
  return expr;
}

CExprPtr CParser::Value(CExprPtr expr) {
  if (failed() || expr == nullptr) return nullptr;
  if (expr->type.is_array()) {
    if (expr->kind != CExprKind::kAddress) {
      FailSubset("a row of an array as a pointer");
      return nullptr;
    }
    expr->type = Decayed(expr->type);
  }
  return expr;
}

CExprPtr CParser::Integer(CExprPtr expr) {
  expr = Value(std::move(expr));
  if (expr == nullptr) return nullptr;
  if (expr->type.is_int()) return expr;
  expr->type.is_void() ? FailNotC("a value is needed here") : FailSubset("a pointer as a number");
  return nullptr;
}

CExprPtr CParser::Scalar(CExprPtr expr) {
  expr = Value(std::move(expr));
  if (expr == nullptr || !expr->type.is_void()) return expr;
  FailNotC("a value is needed here");
  return nullptr;
}

CExprPtr CParser::Converted(CExprPtr expr, CIntType type) {
  if (expr == nullptr || expr->type.base == type) return expr;
  if (expr->kind == CExprKind::kConstant) return Constant(ConvertedTo(type, expr->value), type);
  CExprPtr converted = New(CExprKind::kConvert, IntType(type));
  converted->line = expr->line;
  Adopt(*converted, std::move(expr));
  return converted;
}

bool CParser::IsNull(const CExpr& expr) const {
  return expr.kind == CExprKind::kConstant && expr.value == 0;
}

CExprPtr CParser::AsType(CExprPtr expr, const CType& type) {
  expr = Scalar(std::move(expr));
  if (expr == nullptr) return nullptr;
  if (type.is_int() && expr->type.is_int()) return Converted(std::move(expr), type.base);
  if (type.is_pointer() && (expr->type == type || IsNull(*expr))) {
    expr->type = type;
    return expr;
  }
  FailSubset(TypeText(expr->type) + " where " + TypeText(type) + " is expected");
  return nullptr;
}

CExprPtr CParser::MakeBinary(COp op, CExprPtr left, CExprPtr right) {
  left = Scalar(std::move(left));
  right = Scalar(std::move(right));
  if (failed() || left == nullptr || right == nullptr) return nullptr;
  if (op >= COp::kLt) return MakeCompare(op, std::move(left), std::move(right));
  if (left->type.is_pointer() || right->type.is_pointer()) {
    return MakePointerSum(op, std::move(left), std::move(right));
  }
  const bool is_shift = op == COp::kShl || op == COp::kShr;
  const CIntType type =
      is_shift ? Promoted(left->type.base) : CommonType(left->type.base, right->type.base);
  const CIntType right_type = is_shift ? Promoted(right->type.base) : type;
  CExprPtr binary = New(CExprKind::kBinary, IntType(type));
  binary->op = op;
  binary->line = left->line;
  Adopt(*binary, Converted(std::move(left), type));
  Adopt(*binary, Converted(std::move(right), right_type));
  return binary;
}

// Pointer and integer, or the difference of two pointers.
CExprPtr CParser::MakePointerSum(COp op, CExprPtr left, CExprPtr right) {
  if (op == COp::kSub && left->type.is_pointer() && right->type.is_pointer()) {
    if (left->type != right->type) {
      FailSubset("the difference of pointers of two types");
      return nullptr;
    }
    CExprPtr difference = New(CExprKind::kDifference, IntType(kCLong));
    Adopt(*difference, std::move(left));
    Adopt(*difference, std::move(right));
    return difference;
  }
  if (op == COp::kAdd && right->type.is_pointer()) std::swap(left, right);
  if ((op != COp::kAdd && op != COp::kSub) || right->type.is_pointer()) {
    FailSubset("this operator on a pointer");
    return nullptr;
  }
  CExprPtr offset = New(CExprKind::kOffset, left->type);
  CExprPtr by = Converted(std::move(right), kCLong);
  if (op == COp::kSub) by = MakeUnary(CExprKind::kNegate, std::move(by));
  Adopt(*offset, std::move(left));
  Adopt(*offset, std::move(by));
  return offset;
}

CExprPtr CParser::MakeCompare(COp op, CExprPtr left, CExprPtr right) {
  CExprPtr compare = New(CExprKind::kCompare, IntType(kCInt));
  compare->op = op;
  compare->line = left->line;
  if (left->type.is_int() && right->type.is_int()) {
    const CIntType type = CommonType(left->type.base, right->type.base);
    left = Converted(std::move(left), type);
    right = Converted(std::move(right), type);
  } else if (left->type.is_pointer() && IsNull(*right)) {
    right->type = left->type;
  } else if (right->type.is_pointer() && IsNull(*left)) {
    left->type = right->type;
  } else if (left->type != right->type) {
    FailSubset("a comparison of pointers with other types");
    return nullptr;
  }
  Adopt(*compare, std::move(left));
  Adopt(*compare, std::move(right));
  return compare;
}

CExprPtr CParser::MakeUnary(CExprKind kind, CExprPtr operand) {
  operand = kind == CExprKind::kNot ? Scalar(std::move(operand)) : Integer(std::move(operand));
  if (operand == nullptr) return nullptr;
  const CIntType type = kind == CExprKind::kNot ? kCInt : Promoted(operand->type.base);
  if (kind != CExprKind::kNot) operand = Converted(std::move(operand), type);
  CExprPtr unary = New(kind, IntType(type));
  Adopt(*unary, std::move(operand));
  return unary;
}

CExprPtr CParser::MakeLogical(CExprKind kind, CExprPtr left, CExprPtr right) {
  left = Scalar(std::move(left));
  right = Scalar(std::move(right));
  if (failed()) return nullptr;
  CExprPtr logical = New(kind, IntType(kCInt));
  Adopt(*logical, std::move(left));
  Adopt(*logical, std::move(right));
  return logical;
}

CExprPtr CParser::MakeChoice(CExprPtr condition, CExprPtr yes, CExprPtr no) {
  condition = Scalar(std::move(condition));
  yes = Value(std::move(yes));
  no = Value(std::move(no));
  if (failed() || condition == nullptr || yes == nullptr || no == nullptr) return nullptr;
  CType type = yes->type;
  if (yes->type.is_int() && no->type.is_int()) {
    type = IntType(CommonType(yes->type.base, no->type.base));
    yes = Converted(std::move(yes), type.base);
    no = Converted(std::move(no), type.base);
  } else if (yes->type.is_pointer() && IsNull(*no)) {
    no->type = type;
  } else if (no->type.is_pointer() && IsNull(*yes)) {
    type = yes->type = no->type;
  } else if (yes->type != no->type) {
    FailSubset("a choice between values of different types");
    return nullptr;
  }
  CExprPtr choice = New(CExprKind::kChoose, type);
  Adopt(*choice, std::move(condition));
  Adopt(*choice, std::move(yes));
  Adopt(*choice, std::move(no));
  return choice;
}

CExprPtr CParser::MakeSubscript(CExprPtr base, CExprPtr index) {
  if (failed() || base == nullptr || index == nullptr) return nullptr;
  if (base->type.is_int()) std::swap(base, index);  // 3[a]
  index = Integer(std::move(index));
  if (index == nullptr) return nullptr;
  if (!base->type.is_array() && !base->type.is_pointer()) {
    FailNotC("a subscript of what is neither array nor pointer");
    return nullptr;
  }
  const CType element = ElementOf(base->type);
  CExprPtr offset = New(CExprKind::kOffset, element);
  offset->in_array = base->type.is_array();
  offset->value = offset->in_array ? base->type.dims[0] : 0;
  // 2^63 and more would become negative, which is outside every array as well.
  Adopt(*offset, std::move(base));
  Adopt(*offset, Converted(std::move(index), kCLong));
  if (element.is_array()) return offset;
  offset->type = {CType::Kind::kPointer, element.base, {}};
  CExprPtr load = New(CExprKind::kLoad, element);
  Adopt(*load, std::move(offset));
  return load;
}

CExprPtr CParser::MakeDereference(CExprPtr pointer) {
  pointer = Value(std::move(pointer));
  if (pointer == nullptr) return nullptr;
  if (!pointer->type.is_pointer()) {
    FailNotC("* of what is no pointer");
    return nullptr;
  }
  return MakeSubscript(std::move(pointer), Constant(0, kCLong));
}

CExprPtr CParser::MakeAddress(CExprPtr operand) {
  if (failed() || operand == nullptr) return nullptr;
  if (operand->kind == CExprKind::kLoad) return std::move(operand->args[0]);
  if (operand->kind == CExprKind::kVariable && operand->type.is_int()) {
    if (Variable(operand->index).is_register) FailNotC("the address of a register variable");
    Variable(operand->index).address_taken = true;
    operand->kind = CExprKind::kAddress;
    operand->type.kind = CType::Kind::kPointer;
    return operand;
  }
  operand->type.is_int() ? FailNotC("the address of what is not stored")
                         : FailSubset("the address of an array or a pointer");
  return nullptr;
}

}  // namespace tidemill
