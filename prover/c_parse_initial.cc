// Initial values of variables, and expressions that must be constant.
#include "prover/c_parser.h"

namespace tidemill {
namespace {

constexpr uint64_t kInitialCellsMax = 1 << 16;

}  // namespace

// An array whose outermost length is 0 gets as long as its list.
CParser::InitialCells CParser::ReadInitial(const CType& type) {
  InitialCells out;
  if (type.is_array()) {
    if (Look().kind == CToken::Kind::kString) {
      ReadStringInitial(type, type.dims[0] == 0, 0, out);
    } else if (!Is("{")) {
      FailNotC("an array's initial value is a list");
    } else {
      ReadArrayInitial(type, type.dims[0] == 0, 0, out);
    }
    return out;
  }
  const bool in_braces = Accept("{");
  AddInitialCell(type, 0, out);
  if (in_braces) {
    Accept(",");
    Expect("}");
  }
  return out;
}

void CParser::AddInitialCell(const CType& type, uint64_t cell, InitialCells& out) {
  CExprPtr expr = AsType(ParseAssignment(), type);
  if (failed()) return;
  if (out.exprs.size() >= kInitialCellsMax) return FailSubset("too many initial values");
  out.cells.push_back(static_cast<uint32_t>(cell));
  out.exprs.push_back(std::move(expr));
}

// Strings that follow each other are one.
std::string CParser::ReadString() {
  std::string all;
  while (!failed() && Look().kind == CToken::Kind::kString) {
    const auto characters = CharactersOf(Take());
    if (!characters.ok()) Keep(characters.status());
    if (characters.ok()) all += *characters;
  }
  return all;
}

void CParser::ReadStringInitial(const CType& type, bool open, uint64_t base, InitialCells& out) {
  if (type.dims.size() != 1 || type.base.bits != 8 || type.base.is_bool) {
    return FailSubset("a string");
  }
  const std::string text = ReadString();
  if (text.size() + 1 > kInitialCellsMax) return FailSubset("too long a string");
  if (!open && text.size() > type.dims[0]) return FailSubset("a string longer than its array");
  for (size_t i = 0; i < text.size(); ++i) {
    const int64_t value = ConvertedTo(type.base, text[i]);
    out.cells.push_back(static_cast<uint32_t>(base + i));
    out.exprs.push_back(Constant(value, type.base));
  }
  if (text.empty()) {  // an initial value there must be
    out.cells.push_back(static_cast<uint32_t>(base));
    out.exprs.push_back(Constant(0, type.base));
  }
  out.length = text.size() + 1;
}

// A string as an expression is an array that nobody may write to.
CExprPtr CParser::MakeString() {
  const std::string text = ReadString();
  if (failed()) return nullptr;
  CVariable variable;
  variable.name = "a string";
  variable.is_static = true;
  variable.address_taken = true;
  variable.type.kind = CType::Kind::kArray;
  variable.type.base = CIntType{8, true, false};
  variable.type.dims = {static_cast<uint32_t>(text.size() + 1)};
  variable.initial.assign(text.begin(), text.end());
  variable.initial.push_back(0);
  CExprPtr expr = New(CExprKind::kAddress, variable.type);
  expr->index = AddVariable(std::move(variable));
  return expr;
}

void CParser::ReadArrayInitial(const CType& type, bool open, uint64_t base, InitialCells& out) {
  Expect("{");
  ++depth_;
  if (TooDeep()) return;
  const CType element = ElementOf(type);
  const uint64_t stride = CellsOf(element);
  uint64_t position = 0;
  uint64_t length = 0;
  while (!failed() && !Is("}")) {
    if (Accept("[")) {
      int64_t designated = 0;
      if (!ConstantValue(designated)) return;
      Expect("]");
      if (!Is("=")) return FailSubset("a designator of several parts");
      Expect("=");
      if (designated < 0) return FailNotC("a negative index");
      // The earlier value of the element would have to go.
      if (static_cast<uint64_t>(designated) < length)
        return FailSubset("a designator that goes back");
      position = static_cast<uint64_t>(designated);
    } else if (Is(".")) {
      return FailSubset("a designator of a member");
    }
    if (position >= (open ? kInitialCellsMax : type.dims[0])) {
      return open ? FailSubset("too long a list") : FailNotC("more values than elements");
    }
    const uint64_t cell = base + position * stride;
    if (element.is_int() && Is("{")) return FailSubset("braces around a single value");
    if (element.is_array() && Is("{")) {
      ReadArrayInitial(element, false, cell, out);
    } else if (element.is_array() && Look().kind == CToken::Kind::kString) {
      ReadStringInitial(element, false, cell, out);
    } else if (element.is_array()) {
      ReadElements(element, cell, out);
    } else {
      AddInitialCell(element, cell, out);
    }
    ++position;
    length = position;
    if (!Accept(",")) break;
  }
  Expect("}");
  --depth_;
  out.length = length;
  if (open && length == 0) FailSubset("an empty list");
}

// Values of an inner array whose braces are left out, up to the comma behind the last.
void CParser::ReadElements(const CType& type, uint64_t base, InitialCells& out) {
  const uint64_t cells = CellsOf(type);
  CType element = type;
  while (element.is_array()) element = ElementOf(element);
  for (uint64_t i = 0; i < cells && !failed(); ++i) {
    if (i > 0) {
      if (!Is(",") || IsNext("}")) return;
      Take();
      if (Is("{") || Is("[")) return FailSubset("braces left out in part");
    }
    AddInitialCell(element, base + i, out);
  }
}

bool CParser::ConstantValue(int64_t& value) {
  const CExprPtr expr = Integer(ParseChoice());
  if (failed()) return false;
  if (FoldC(*expr, value)) return true;
  FailNotC("expected a constant");
  return false;
}

// Also of `const int n = 5;`, which makes an array of variable length that never varies.
bool CParser::FoldSize(const CExpr& expr, int64_t& value) const {
  if (FoldC(expr, value)) return true;
  if (expr.kind == CExprKind::kVariable) {
    const CVariable& variable = expr.index >= kCStaticBase
                                    ? program_.statics[expr.index - kCStaticBase]
                                    : function_->variables[expr.index];
    if (!variable.is_const || variable.initial.size() != 1) return false;
    value = variable.initial[0];
    return true;
  }
  if (expr.kind == CExprKind::kConvert) {
    if (!FoldSize(*expr.args[0], value)) return false;
    value = ConvertedTo(expr.type.base, value);
    return true;
  }
  if (expr.kind != CExprKind::kBinary) return false;
  int64_t left = 0, right = 0;
  return FoldSize(*expr.args[0], left) && FoldSize(*expr.args[1], right) &&
         ApplyOp(expr.op, expr.type.base, left, right, value) == CUndefined::kNone;
}

namespace {

bool FoldBranches(const CExpr& expr, int64_t& value) {
  int64_t left = 0;
  if (!FoldC(*expr.args[0], left)) return false;
  switch (expr.kind) {
    case CExprKind::kChoose:
      return FoldC(*expr.args[left != 0 ? 1 : 2], value);
    case CExprKind::kAnd:
    case CExprKind::kOr:
      if ((left != 0) == (expr.kind == CExprKind::kOr)) {
        value = left != 0;
        return true;
      }
      if (!FoldC(*expr.args[1], value)) return false;
      value = value != 0;
      return true;
    default:
      return false;
  }
}

}  // namespace

bool FoldC(const CExpr& expr, int64_t& value) {
  int64_t left = 0, right = 0;
  switch (expr.kind) {
    case CExprKind::kConstant:
      value = expr.value;
      return true;
    case CExprKind::kConvert:
      if (!expr.type.is_int() || !FoldC(*expr.args[0], left)) return false;
      value = ConvertedTo(expr.type.base, left);
      return true;
    case CExprKind::kNegate:
      return FoldC(*expr.args[0], left) &&
             ApplyOp(COp::kSub, expr.type.base, 0, left, value) == CUndefined::kNone;
    case CExprKind::kBitNot:
      if (!FoldC(*expr.args[0], left)) return false;
      value = ConvertedTo(expr.type.base, ~left);
      return true;
    case CExprKind::kNot:
      if (!FoldC(*expr.args[0], left)) return false;
      value = left == 0;
      return true;
    case CExprKind::kBinary:
    case CExprKind::kCompare:
      return expr.args[0]->type.is_int() && FoldC(*expr.args[0], left) &&
             FoldC(*expr.args[1], right) &&
             ApplyOp(expr.op, expr.args[0]->type.base, left, right, value) == CUndefined::kNone;
    case CExprKind::kChoose:
    case CExprKind::kAnd:
    case CExprKind::kOr:
      return FoldBranches(expr, value);
    default:
      return false;
  }
}

}  // namespace tidemill
