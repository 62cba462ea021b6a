#include <algorithm>
#include <utility>

#include "prover/c_parser.h"

namespace tidemill {

CStatementPtr CParser::NewStatement(CStatementKind kind) {
  auto statement = std::make_unique<CStatement>();
  statement->kind = kind;
  statement->line = Look().line;
  return statement;
}

// Behind the "{", up to and with the "}".
CStatementPtr CParser::ParseBlock() {
  CStatementPtr block = NewStatement(CStatementKind::kBlock);
  ++depth_;
  if (TooDeep()) return block;
  scopes_.emplace_back();
  while (!failed() && !Is("}")) {
    if (Look().kind == CToken::Kind::kEnd) FailNotC("expected \"}\", got the end of the text");
    ParseItem(block->body);
  }
  Expect("}");
  scopes_.pop_back();
  --depth_;
  return block;
}

void CParser::ParseItem(std::vector<CStatementPtr>& out) {
  if (Is("case") || (Is("default") && IsNext(":"))) {
    out.push_back(ParseLabel());
  } else if (ReadStaticAssert()) {
    return;
  } else if (StartsType(Look()) && !IsNext(":")) {
    ParseDeclaration(out);
  } else {
    out.push_back(ParseStatement());
  }
}

void CParser::ParseDeclaration(std::vector<CStatementPtr>& out, bool in_for) {
  const Specifiers specifiers = ReadSpecifiers();
  if (in_for && specifiers.storages > (specifiers.is_register ? 1 : 0)) {
    FailSubset("a storage class in a for");
  }
  if (DeclaresNothing(specifiers)) return;
  do {
    Declarator declarator = ReadDeclarator(specifiers.type, false);
    if (failed()) return;
    if (declarator.is_function) return FailSubset("a function declared in a function");
    if (specifiers.is_typedef) {
      if (declarator.open_array) return FailSubset("this typedef");
      Declare(declarator.name, {Symbol::Kind::kType, 0, 0, declarator.type});
    } else if (specifiers.is_static || specifiers.is_extern) {
      DeclareStatic(specifiers, declarator);
    } else {
      DeclareLocal(specifiers, declarator, out);
    }
  } while (Accept(","));
  Expect(";");
}

CStatementPtr CParser::ParseStatement() {
  ++depth_;
  CStatementPtr statement;
  if (TooDeep()) {
    statement = NewStatement(CStatementKind::kBlock);
  } else if (Is("case") || (Is("default") && IsNext(":"))) {
    statement = NewStatement(CStatementKind::kBlock);
    statement->body.push_back(ParseLabel());
    statement->body.push_back(ParseStatement());
  } else if (Accept("{")) {
    statement = ParseBlock();
  } else if (Accept(";")) {
    statement = NewStatement(CStatementKind::kBlock);
  } else if (Is("if")) {
    statement = ParseIf();
  } else if (Is("while")) {
    statement = ParseWhile();
  } else if (Is("do")) {
    statement = ParseDo();
  } else if (Is("for")) {
    statement = ParseFor();
  } else if (Is("switch")) {
    statement = ParseSwitch();
  } else if (Is("return")) {
    statement = ParseReturn();
  } else if (Is("break") || Is("continue")) {
    const bool is_break = Is("break");
    if (loops_ == 0 && (switches_ == 0 || !is_break)) FailNotC(Shown() + " outside a loop");
    statement = NewStatement(is_break ? CStatementKind::kBreak : CStatementKind::kContinue);
    Take();
    Expect(";");
  } else if (Is("goto") || Is("asm") || Is("__asm__") || Is("__asm") ||
             (Look().kind == CToken::Kind::kName && IsNext(":"))) {
    FailSubset(Is("goto") ? "goto" : "a label or asm");
  } else {
    statement = NewStatement(CStatementKind::kExpression);
    statement->exprs.push_back(Value(ParseExpression()));
    Expect(";");
  }
  --depth_;
  return statement;
}

CExprPtr CParser::ParseCondition() {
  Expect("(");
  CExprPtr condition = Scalar(ParseExpression());
  Expect(")");
  return condition;
}

CStatementPtr CParser::ParseLoopBody() {
  ++loops_;
  CStatementPtr body = ParseStatement();
  --loops_;
  return body;
}

CStatementPtr CParser::ParseIf() {
  CStatementPtr statement = NewStatement(CStatementKind::kIf);
  Take();
  statement->exprs.push_back(ParseCondition());
  statement->body.push_back(ParseStatement());
  if (Accept("else")) statement->body.push_back(ParseStatement());
  return statement;
}

CStatementPtr CParser::ParseWhile() {
  CStatementPtr statement = NewStatement(CStatementKind::kWhile);
  Take();
  statement->exprs.push_back(ParseCondition());
  statement->body.push_back(ParseLoopBody());
  return statement;
}

CStatementPtr CParser::ParseDo() {
  CStatementPtr statement = NewStatement(CStatementKind::kDo);
  Take();
  statement->body.push_back(ParseLoopBody());
  Expect("while");
  statement->exprs.push_back(ParseCondition());
  Expect(";");
  return statement;
}

CStatementPtr CParser::ParseFor() {
  CStatementPtr statement = NewStatement(CStatementKind::kFor);
  Take();
  Expect("(");
  scopes_.emplace_back();
  CStatementPtr first = NewStatement(CStatementKind::kBlock);
  if (StartsType(Look())) {
    ParseDeclaration(first->body, true);
  } else if (!Accept(";")) {
    CStatementPtr expression = NewStatement(CStatementKind::kExpression);
    expression->exprs.push_back(Value(ParseExpression()));
    first->body.push_back(std::move(expression));
    Expect(";");
  }
  statement->exprs.push_back(Is(";") ? nullptr : Scalar(ParseExpression()));
  Expect(";");
  statement->exprs.push_back(Is(")") ? nullptr : Value(ParseExpression()));
  Expect(")");
  statement->body.push_back(ParseLoopBody());
  statement->body.push_back(std::move(first));
  scopes_.pop_back();
  return statement;
}

CStatementPtr CParser::ParseSwitch() {
  CStatementPtr statement = NewStatement(CStatementKind::kSwitch);
  Take();
  Expect("(");
  CExprPtr value = Integer(ParseExpression());
  Expect(")");
  if (failed()) return statement;
  const CIntType type = Promoted(value->type.base);
  statement->exprs.push_back(Converted(std::move(value), type));
  open_switches_.push_back({.type = type});
  ++switches_;
  statement->body.push_back(ParseStatement());
  --switches_;
  open_switches_.pop_back();
  return statement;
}

// "case 3:" or "default:"; the statement behind it is the caller's.
CStatementPtr CParser::ParseLabel() {
  const bool is_case = Is("case");
  CStatementPtr statement =
      NewStatement(is_case ? CStatementKind::kCase : CStatementKind::kDefault);
  Take();
  if (open_switches_.empty()) {
    FailNotC("a case outside a switch");
    return statement;
  }
  OpenSwitch& open = open_switches_.back();
  std::vector<int64_t>& cases = open.cases;
  if (is_case) {
    int64_t value = 0;
    if (!ConstantValue(value)) return statement;
    if (Is("...")) FailSubset("a range of cases");
    statement->value = ConvertedTo(open.type, value);
    if (std::find(cases.begin(), cases.end(), statement->value) != cases.end()) {
      FailNotC("a case that is there twice");
    }
    cases.push_back(statement->value);
    if (cases.size() > 1000) FailSubset("more than 1000 cases");
  } else if (std::exchange(open.has_default, true)) {
    FailNotC("a second default");
  }
  Expect(":");
  return statement;
}

CStatementPtr CParser::ParseReturn() {
  CStatementPtr statement = NewStatement(CStatementKind::kReturn);
  Take();
  const bool is_void = function_->result.is_void();
  if (!Is(";")) {
    if (is_void) {
      FailSubset("a value returned from a void function");
      return statement;
    }
    statement->exprs.push_back(AsType(ParseExpression(), function_->result));
  } else if (!is_void) {
    FailNotC("return without a value");
  }
  Expect(";");
  return statement;
}

}  // namespace tidemill
