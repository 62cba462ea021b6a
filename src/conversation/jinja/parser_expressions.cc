#include <charconv>
#include <cstdlib>

#include "conversation/jinja/builtins.h"
#include "conversation/jinja/parser.h"

namespace tidemill {
namespace {

constexpr int kExpressionDepthMax = 400;

}  // namespace

JinjaExprPtr JinjaParser::NewExpr(JinjaExpr::Kind kind, size_t begin) const {
  auto node = std::make_unique<JinjaExpr>();
  node->kind = kind;
  node->begin = begin;
  node->end = begin;
  return node;
}

void JinjaParser::Deepen(JinjaExpr& node, const JinjaExpr& part) const {
  node.depth = std::max(node.depth, part.depth + 1);
  if (node.depth > kExpressionDepthMax) Fail("an expression nests too deep");
}

void JinjaParser::AddPart(JinjaExpr& node, JinjaExprPtr part) const {
  if (part != nullptr) Deepen(node, *part);
  node.parts.push_back(std::move(part));
}

JinjaExprPtr JinjaParser::Finish(JinjaExprPtr node) const {
  node->end = at_ > 0 ? tokens_[at_ - 1].end : node->begin;
  return node;
}

JinjaExprPtr JinjaParser::BinaryOf(JinjaExprPtr left, std::string op, JinjaExprPtr right) const {
  auto node = NewExpr(JinjaExpr::Kind::kBinary, left->begin);
  node->text = std::move(op);
  AddPart(*node, std::move(left));
  AddPart(*node, std::move(right));
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::ConstOf(JinjaValue value, size_t begin) const {
  auto node = NewExpr(JinjaExpr::Kind::kConst, begin);
  node->value = std::move(value);
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::Conditional() {
  const Level level(*this);
  JinjaExprPtr then = Or();
  while (SkipWord("if")) {
    auto node = NewExpr(JinjaExpr::Kind::kIf, then->begin);
    ++soft_;
    AddPart(*node, Or());
    AddPart(*node, std::move(then));
    AddPart(*node, SkipWord("else") ? Conditional() : nullptr);
    --soft_;
    then = Finish(std::move(node));
  }
  return then;
}

JinjaExprPtr JinjaParser::Or() {
  JinjaExprPtr left = And();
  while (SkipWord("or")) left = BinaryOf(std::move(left), "or", And());
  return left;
}

JinjaExprPtr JinjaParser::And() {
  JinjaExprPtr left = Not();
  while (SkipWord("and")) left = BinaryOf(std::move(left), "and", Not());
  return left;
}

JinjaExprPtr JinjaParser::Not() {
  if (!IsWord("not")) return Compare();
  const Level level(*this);
  auto node = NewExpr(JinjaExpr::Kind::kUnary, Take().begin);
  node->text = "not";
  AddPart(*node, Not());
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::Compare() {
  JinjaExprPtr first = Sum();
  auto node = NewExpr(JinjaExpr::Kind::kCompare, first->begin);
  AddPart(*node, std::move(first));
  while (true) {
    std::string op;
    if (Now().kind == Kind::kOperator) {
      for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
        if (Now().text == known) op = known;
      }
      if (!op.empty()) Take();
    } else if (SkipWord("in")) {
      op = "in";
    } else if (IsWord("not") && Ahead().kind == Kind::kName && Ahead().text == "in") {
      Take();
      Take();
      op = "not in";
    }
    if (op.empty()) break;
    node->operators.push_back(std::move(op));
    AddPart(*node, Sum());
  }
  if (node->operators.empty()) return std::move(node->parts[0]);
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::Sum() {
  JinjaExprPtr left = Concat();
  while (IsOp("+") || IsOp("-")) {
    std::string op = Take().text;
    left = BinaryOf(std::move(left), std::move(op), Concat());
  }
  return left;
}

JinjaExprPtr JinjaParser::Concat() {
  JinjaExprPtr first = Product();
  if (!IsOp("~")) return first;
  auto node = NewExpr(JinjaExpr::Kind::kConcat, first->begin);
  AddPart(*node, std::move(first));
  while (SkipOp("~")) AddPart(*node, Product());
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::Product() {
  JinjaExprPtr left = Power();
  while (IsOp("*") || IsOp("/") || IsOp("//") || IsOp("%")) {
    std::string op = Take().text;
    left = BinaryOf(std::move(left), std::move(op), Power());
  }
  return left;
}

JinjaExprPtr JinjaParser::Power() {
  JinjaExprPtr left = Unary(true);
  while (SkipOp("**")) left = BinaryOf(std::move(left), "**", Unary(true));
  return left;
}

JinjaExprPtr JinjaParser::Unary(bool with_filter) {
  const Level level(*this);
  JinjaExprPtr node;
  if (IsOp("-") || IsOp("+")) {
    const JinjaToken op = Take();
    node = NewExpr(JinjaExpr::Kind::kUnary, op.begin);
    node->text = op.text;
    AddPart(*node, Unary(false));
    node = Finish(std::move(node));
  } else {
    node = Primary();
  }
  node = Postfix(std::move(node));
  if (!with_filter) return node;
  while (true) {
    if (IsOp("|")) {
      node = Filters(std::move(node), false);
    } else if (IsWord("is")) {
      node = Test(std::move(node));
    } else if (IsOp("(")) {
      node = CallOf(std::move(node));
    } else {
      return node;
    }
  }
}

JinjaExprPtr JinjaParser::Primary() {
  const size_t begin = Now().begin;
  if (Now().kind == Kind::kName) {
    const std::string word = Take().text;
    if (word == "true" || word == "True") return ConstOf(JinjaValue::Bool(true), begin);
    if (word == "false" || word == "False") return ConstOf(JinjaValue::Bool(false), begin);
    if (word == "none" || word == "None") return ConstOf(JinjaValue(), begin);
    if (word == "varargs") saw_varargs_ = true;
    if (word == "kwargs") saw_kwargs_ = true;
    auto node = NewExpr(JinjaExpr::Kind::kName, begin);
    node->name = NameId(word);
    node->text = word;
    return Finish(std::move(node));
  }
  if (Now().kind == Kind::kString) {
    std::string text = Take().text;
    while (Now().kind == Kind::kString) text += Take().text;
    return ConstOf(JinjaValue::Own(std::move(text)), begin);
  }
  if (Now().kind == Kind::kInteger || Now().kind == Kind::kFloat) return Number();
  if (SkipOp("(")) {
    JinjaExprPtr node = Tuple(true, true, begin);
    ExpectOp(")");
    return node;
  }
  if (IsOp("[")) return ListLiteral();
  if (IsOp("{")) return MapLiteral();
  Fail("expected an expression");
}

JinjaExprPtr JinjaParser::Number() {
  const JinjaToken token = Take();
  if (token.kind == Kind::kFloat) {
    return ConstOf(JinjaValue(std::strtod(token.text.c_str(), nullptr)), token.begin);
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const int x = digits[1] | 0x20;
    base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    if (base != 10) digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) Fail("a number is too large");
  return ConstOf(JinjaValue::Int(value), token.begin);
}

JinjaExprPtr JinjaParser::ListLiteral() {
  auto node = NewExpr(JinjaExpr::Kind::kList, Take().begin);
  while (!IsOp("]")) {
    if (!node->parts.empty()) ExpectOp(",");
    if (IsOp("]")) break;
    AddPart(*node, Expression());
  }
  ExpectOp("]");
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::MapLiteral() {
  auto node = NewExpr(JinjaExpr::Kind::kMap, Take().begin);
  while (!IsOp("}")) {
    if (!node->parts.empty()) ExpectOp(",");
    if (IsOp("}")) break;
    AddPart(*node, Expression());
    ExpectOp(":");
    AddPart(*node, Expression());
  }
  ExpectOp("}");
  return Finish(std::move(node));
}

bool JinjaParser::IsTupleEnd() const {
  return Now().kind == Kind::kPrintEnd || Now().kind == Kind::kBlockEnd || IsOp(")") ||
         IsWord("recursive");
}

JinjaExprPtr JinjaParser::Tuple(bool conditional, bool parenthesized, size_t begin) {
  auto node = NewExpr(JinjaExpr::Kind::kTuple, begin);
  bool is_tuple = false;
  while (!IsTupleEnd()) {
    AddPart(*node, conditional ? Expression() : Or());
    if (!IsOp(",")) break;
    Take();
    is_tuple = true;
  }
  if (!is_tuple && !node->parts.empty()) return std::move(node->parts[0]);
  if (!is_tuple && !parenthesized) Fail("expected an expression");
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::Postfix(JinjaExprPtr node) {
  while (true) {
    if (IsOp(".") || IsOp("[")) {
      node = Subscript(std::move(node));
    } else if (IsOp("(")) {
      node = CallOf(std::move(node));
    } else {
      return node;
    }
  }
}

JinjaExprPtr JinjaParser::Subscript(JinjaExprPtr value) {
  const size_t begin = value->begin;
  if (SkipOp(".")) {
    if (Now().kind == Kind::kInteger) {
      auto node = NewExpr(JinjaExpr::Kind::kGetItem, begin);
      AddPart(*node, std::move(value));
      AddPart(*node, Number());
      return Finish(std::move(node));
    }
    auto node = NewExpr(JinjaExpr::Kind::kGetAttr, begin);
    node->text = ExpectName("an attribute's name");
    AddPart(*node, std::move(value));
    return Finish(std::move(node));
  }
  ExpectOp("[");
  JinjaExprPtr parts[3];  // start, stop, step
  int colons = 0;
  while (!IsOp("]")) {
    if (SkipOp(":")) {
      if (++colons > 2) Fail("a slice has at most two colons");
    } else {
      if (parts[colons] != nullptr) Fail("expected \"]\"");
      parts[colons] = Expression();
    }
  }
  ExpectOp("]");
  auto node = NewExpr(colons > 0 ? JinjaExpr::Kind::kSlice : JinjaExpr::Kind::kGetItem, begin);
  if (colons == 0 && parts[0] == nullptr) Fail("expected an index");
  AddPart(*node, std::move(value));
  AddPart(*node, std::move(parts[0]));
  if (colons > 0) {
    AddPart(*node, std::move(parts[1]));
    AddPart(*node, std::move(parts[2]));
  }
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::CallOf(JinjaExprPtr callee) {
  auto node = NewExpr(JinjaExpr::Kind::kCall, callee->begin);
  AddPart(*node, std::move(callee));
  CallArgs(*node);
  return Finish(std::move(node));
}

void JinjaParser::CallArgs(JinjaExpr& call) {
  ExpectOp("(");
  bool first = true;
  while (!IsOp(")")) {
    if (!first) ExpectOp(",");
    if (IsOp(")")) break;
    first = false;
    JinjaExprPtr* star = SkipOp("**") ? &call.star_kwargs : SkipOp("*") ? &call.star_args : nullptr;
    if (star != nullptr) {
      if (*star != nullptr) Fail("invalid arguments");
      *star = Expression();
      Deepen(call, **star);
    } else if (Now().kind == Kind::kName && Ahead().kind == Kind::kOperator &&
               Ahead().text == "=") {
      std::string name = Take().text;
      Take();
      call.named.emplace_back(std::move(name), Expression());
      Deepen(call, *call.named.back().second);
    } else {
      if (!call.named.empty() || call.star_kwargs || call.star_args) {
        Fail("a positional argument behind a named one");
      }
      call.args.push_back(Expression());
      Deepen(call, *call.args.back());
    }
  }
  ExpectOp(")");
}

JinjaExprPtr JinjaParser::Filters(JinjaExprPtr node, bool start_inline) {
  while (IsOp("|") || start_inline) {
    if (!start_inline) Take();
    start_inline = false;
    auto filter = NewExpr(JinjaExpr::Kind::kFilter, node != nullptr ? node->begin : Now().begin);
    filter->text = ExpectName("a filter's name");
    while (SkipOp(".")) filter->text += "." + ExpectName("a filter's name");
    CheckKnown(FindFilter(filter->text) != nullptr, "filter", filter->text);
    AddPart(*filter, std::move(node));
    if (IsOp("(")) CallArgs(*filter);
    node = Finish(std::move(filter));
  }
  return node;
}

JinjaExprPtr JinjaParser::Test(JinjaExprPtr value) {
  const size_t begin = value->begin;
  Take();  // is
  const bool negated = SkipWord("not");
  auto node = NewExpr(JinjaExpr::Kind::kTest, begin);
  node->text = ExpectName("a test's name");
  while (SkipOp(".")) node->text += "." + ExpectName("a test's name");
  CheckKnown(FindTest(node->text) != nullptr, "test", node->text);
  AddPart(*node, std::move(value));
  const Kind kind = Now().kind;
  const bool value_follows = kind == Kind::kName || kind == Kind::kString ||
                             kind == Kind::kInteger || kind == Kind::kFloat || IsOp("[") ||
                             IsOp("{");
  if (IsOp("(")) {
    CallArgs(*node);
  } else if (value_follows && !IsWord("else") && !IsWord("or") && !IsWord("and")) {
    if (IsWord("is")) Fail("tests cannot be chained with \"is\"");
    node->args.push_back(Postfix(Primary()));
    Deepen(*node, *node->args.back());
  }
  node = Finish(std::move(node));
  if (!negated) return node;
  auto negation = NewExpr(JinjaExpr::Kind::kUnary, begin);
  negation->text = "not";
  AddPart(*negation, std::move(node));
  return Finish(std::move(negation));
}

void JinjaParser::CheckKnown(bool known, std::string_view what, std::string_view name) const {
  if (!known && soft_ == 0) {
    Fail("no " + std::string(what) + " named \"" + std::string(name) + "\"");
  }
}

}  // namespace tidemill
