#include <array>

#include "core/text.h"
#include "prover/c_parser.h"

namespace tidemill {
namespace {

struct BinaryOperator {
  std::string_view text;
  int precedence;
  COp op;
};

constexpr std::array kBinaryOperators = {
    BinaryOperator{"*", 10, COp::kMul}, BinaryOperator{"/", 10, COp::kDiv},
    BinaryOperator{"%", 10, COp::kRem}, BinaryOperator{"+", 9, COp::kAdd},
    BinaryOperator{"-", 9, COp::kSub},  BinaryOperator{"<<", 8, COp::kShl},
    BinaryOperator{">>", 8, COp::kShr}, BinaryOperator{"<", 7, COp::kLt},
    BinaryOperator{"<=", 7, COp::kLe},  BinaryOperator{">", 7, COp::kGt},
    BinaryOperator{">=", 7, COp::kGe},  BinaryOperator{"==", 6, COp::kEq},
    BinaryOperator{"!=", 6, COp::kNe},  BinaryOperator{"&", 5, COp::kAnd},
    BinaryOperator{"^", 4, COp::kXor},  BinaryOperator{"|", 3, COp::kOr},
};

constexpr std::array kUpdateOperators = {
    BinaryOperator{"+=", 0, COp::kAdd},  BinaryOperator{"-=", 0, COp::kSub},
    BinaryOperator{"*=", 0, COp::kMul},  BinaryOperator{"/=", 0, COp::kDiv},
    BinaryOperator{"%=", 0, COp::kRem},  BinaryOperator{"<<=", 0, COp::kShl},
    BinaryOperator{">>=", 0, COp::kShr}, BinaryOperator{"&=", 0, COp::kAnd},
    BinaryOperator{"|=", 0, COp::kOr},   BinaryOperator{"^=", 0, COp::kXor},
};

const BinaryOperator* FindOperator(const auto& table, const CToken& token) {
  if (token.kind != CToken::Kind::kPunctuator) return nullptr;
  for (const BinaryOperator& entry : table) {
    if (entry.text == token.text) return &entry;
  }
  return nullptr;
}

constexpr int kLogicalAndPrecedence = 2;
constexpr int kLogicalOrPrecedence = 1;

}  // namespace

CExprPtr CParser::ParseExpression() {
  CExprPtr left = ParseAssignment();
  while (Accept(",")) {
    CExprPtr first = Value(std::move(left));
    CExprPtr second = Value(ParseAssignment());
    if (failed()) return nullptr;
    CExprPtr comma = New(CExprKind::kComma, second->type);
    Adopt(*comma, std::move(first));
    Adopt(*comma, std::move(second));
    left = std::move(comma);
  }
  return left;
}

CExprPtr CParser::ParseAssignment() {
  ++depth_;
  if (TooDeep()) return nullptr;
  CExprPtr left = ParseChoice();
  if (Accept("=")) {
    CExprPtr right = ParseAssignment();
    left = MakeAssign(std::move(left), std::move(right));
  } else if (const BinaryOperator* update = FindOperator(kUpdateOperators, Look())) {
    Take();
    CExprPtr right = ParseAssignment();
    left = MakeUpdate(update->op, std::move(left), std::move(right), false);
  }
  --depth_;
  return left;
}

CExprPtr CParser::ParseChoice() {
  CExprPtr condition = ParseBinary(0);
  if (!Accept("?")) return condition;
  ++depth_;
  if (TooDeep()) return nullptr;
  if (Is(":")) FailSubset("?: without a middle");
  CExprPtr yes = ParseExpression();
  Expect(":");
  CExprPtr no = ParseChoice();
  --depth_;
  return MakeChoice(std::move(condition), std::move(yes), std::move(no));
}

CExprPtr CParser::ParseBinary(int lowest) {
  ++depth_;
  if (TooDeep()) return nullptr;
  CExprPtr left = ParseCast();
  while (!failed()) {
    const bool is_and = Is("&&");
    if (is_and || Is("||")) {
      const int precedence = is_and ? kLogicalAndPrecedence : kLogicalOrPrecedence;
      if (precedence < lowest) break;
      Take();
      CExprPtr right = ParseBinary(precedence + 1);
      left =
          MakeLogical(is_and ? CExprKind::kAnd : CExprKind::kOr, std::move(left), std::move(right));
      continue;
    }
    const BinaryOperator* found = FindOperator(kBinaryOperators, Look());
    if (found == nullptr || found->precedence < lowest) break;
    Take();
    CExprPtr right = ParseBinary(found->precedence + 1);
    left = MakeBinary(found->op, std::move(left), std::move(right));
  }
  --depth_;
  return left;
}

CExprPtr CParser::ParseCast() {
  if (!Is("(") || !StartsType(Look(1))) return ParseUnary();
  ++depth_;
  if (TooDeep()) return nullptr;
  Take();
  const CType type = ReadTypeName();
  Expect(")");
  if (Is("{")) FailSubset("a compound literal");
  CExprPtr operand = Value(ParseCast());
  --depth_;
  if (failed()) return nullptr;
  if (type.is_void()) {
    CExprPtr cast = New(CExprKind::kConvert, type);
    Adopt(*cast, std::move(operand));
    return cast;
  }
  if (type.is_int() && operand->type.is_int()) {
    // Not the operand itself: a cast is no lvalue.
    if (operand->type == type && operand->kind != CExprKind::kVariable &&
        operand->kind != CExprKind::kLoad) {
      return operand;
    }
    CExprPtr cast = New(CExprKind::kConvert, type);
    Adopt(*cast, std::move(operand));
    return cast;
  }
  if (type.is_pointer() && (operand->type == type || IsNull(*operand))) {
    return AsType(std::move(operand), type);
  }
  FailSubset("a cast between pointers and other types");
  return nullptr;
}

CExprPtr CParser::ParseUnary() {
  ++depth_;
  if (TooDeep()) return nullptr;
  CExprPtr result;
  if (Is("++") || Is("--")) {
    const COp op = Take().Is("++") ? COp::kAdd : COp::kSub;
    result = MakeUpdate(op, ParseUnary(), Constant(1, kCInt), false);
  } else if (Accept("-")) {
    result = MakeUnary(CExprKind::kNegate, ParseCast());
  } else if (Accept("+")) {
    result = Integer(ParseCast());
    if (result != nullptr) {
      const CIntType type = Promoted(result->type.base);
      CExprPtr plus = New(CExprKind::kConvert, IntType(type));
      Adopt(*plus, std::move(result));
      result = std::move(plus);
    }
  } else if (Accept("~")) {
    result = MakeUnary(CExprKind::kBitNot, ParseCast());
  } else if (Accept("!")) {
    result = MakeUnary(CExprKind::kNot, ParseCast());
  } else if (Accept("*")) {
    result = MakeDereference(ParseCast());
  } else if (Accept("&")) {
    result = MakeAddress(ParseCast());
  } else if (Is("sizeof")) {
    result = ParseSizeof();
  } else {
    result = ParsePostfix();
  }
  --depth_;
  return result;
}

CExprPtr CParser::ParseSizeof() {
  Take();
  CType type;
  if (Is("(") && StartsType(Look(1))) {
    Take();
    type = ReadTypeName();
    Expect(")");
    if (Is("{")) FailSubset("a compound literal");
  } else {
    const CExprPtr operand = ParseUnary();
    if (failed()) return nullptr;
    type = operand->type;
  }
  if (type.is_void()) FailSubset("sizeof of void");
  return Constant(static_cast<int64_t>(SizeOf(type)), kCUnsignedLong);
}

CExprPtr CParser::ParsePostfix() {
  CExprPtr result = ParsePrimary();
  while (!failed()) {
    if (Accept("[")) {
      CExprPtr index = ParseExpression();
      Expect("]");
      result = MakeSubscript(std::move(result), std::move(index));
    } else if (Is("++") || Is("--")) {
      const COp op = Take().Is("++") ? COp::kAdd : COp::kSub;
      result = MakeUpdate(op, std::move(result), Constant(1, kCInt), true);
    } else if (Is("(")) {
      FailSubset("a call of what is not a function's name");
    } else if (Is(".") || Is("->")) {
      FailSubset("a member of a struct");
    } else {
      return result;
    }
  }
  return result;
}

CExprPtr CParser::ParsePrimary() {
  const CToken token = Look();
  switch (token.kind) {
    case CToken::Kind::kNumber:
      Take();
      return Constant(token.value, token.type);
    case CToken::Kind::kFloat:
      FailSubset("a floating-point number");
      return nullptr;
    case CToken::Kind::kString:
      return MakeString();
    case CToken::Kind::kName:
      return ParseName();
    default:
      break;
  }
  if (Is("&&")) FailSubset("the address of a label");
  if (Is("[") && IsNext("[")) FailSubset("an attribute in brackets");
  if (!Is("(")) {
    FailGrammar("expected an expression, got " + Shown());
    return nullptr;
  }
  Take();
  if (Is("{")) FailSubset("a statement as an expression");
  CExprPtr inner = ParseExpression();
  Expect(")");
  return inner;
}

CExprPtr CParser::ParseName() {
  const CToken name = Look();
  const Symbol* symbol = Find(name.text);
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kVariable) {
    Take();
    const CVariable& variable = Variable(symbol->index);
    const bool is_array = variable.type.is_array();
    CExprPtr expr = New(is_array ? CExprKind::kAddress : CExprKind::kVariable, variable.type);
    expr->index = symbol->index;
    return expr;
  }
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kConstant) {
    Take();
    return Constant(symbol->value, symbol->type.base);
  }
  if (IsReserved(name.text) && symbol == nullptr && !IsBuiltin(name.text) &&
      !name.Is("__builtin_unreachable")) {
    FailSubset("\"" + Beginning(name.text, 40) + "\"");
    return nullptr;
  }
  if (IsNext("(")) return ParseCall(Take());
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kFunction) {
    FailSubset("a pointer to a function");
    return nullptr;
  }
  CIntType type;
  int64_t value = 0;
  if (symbol == nullptr && name.text == "NULL") {
    Take();
    CExprPtr null = New(CExprKind::kConstant, {CType::Kind::kPointer, kCInt, {}});
    null->value = 0;
    return null;
  }
  if (symbol == nullptr && FindHeaderConstant(name.text, type, value)) {
    Take();
    return Constant(value, type);
  }
  if (name.text.starts_with("_")) {
    FailSubset("\"" + Beginning(name.text, 40) + "\"");
  } else {
    FailNotC("\"" + Beginning(name.text, 40) + "\" is not declared");
  }
  return nullptr;
}

CExprPtr CParser::ParseCall(const CToken& name) {
  const Symbol* symbol = Find(name.text);
  Expect("(");
  std::vector<CExprPtr> args;
  if (!Is(")")) {
    do {
      if (StartsType(Look())) FailSubset("a type as an argument");
      args.push_back(Value(ParseAssignment()));
      if (args.size() > 32) FailSubset("more than 32 arguments");
    } while (!failed() && Accept(","));
  }
  Expect(")");
  if (failed()) return nullptr;
  // A function that is only declared may be one of the library's.
  if (symbol != nullptr && symbol->kind == Symbol::Kind::kFunction &&
      (states_[symbol->index].defined || !IsLibraryName(name.text))) {
    return MakeCall(symbol->index, std::move(args), name.line);
  }
  return MakeBuiltin(name.text, std::move(args));
}

}  // namespace tidemill
