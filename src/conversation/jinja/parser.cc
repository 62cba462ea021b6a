#include "conversation/jinja/parser.h"

#include <algorithm>
#include <utility>

namespace tidemill {

JinjaProgram ParseProgram(std::string_view source) {
  return JinjaParser(LexTemplate(source)).Run();
}

JinjaProgram JinjaParser::Run() {
  program_.body = Body({});
  return std::move(program_);
}

JinjaToken JinjaParser::Take() {
  JinjaToken token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool JinjaParser::SkipOp(std::string_view op) {
  if (!IsOp(op)) return false;
  Take();
  return true;
}

bool JinjaParser::SkipWord(std::string_view word) {
  if (!IsWord(word)) return false;
  Take();
  return true;
}

void JinjaParser::ExpectOp(std::string_view op) {
  if (!SkipOp(op)) Fail("expected \"" + std::string(op) + "\"");
}

std::string JinjaParser::ExpectName(std::string_view what) {
  if (Now().kind != Kind::kName) Fail("expected " + std::string(what));
  return Take().text;
}

void JinjaParser::ExpectBlockEnd() {
  if (Now().kind != Kind::kBlockEnd) Fail("expected \"%}\"");
  Take();
}

void JinjaParser::Fail(std::string message) const {
  const JinjaToken& token = Now();
  if (token.kind == Kind::kEnd)
    message += ", got the end of the template";
  else
    message += ", got \"" + token.text.substr(0, 40) + "\"";
  throw JinjaSyntaxError{std::move(message), token.begin};
}

int JinjaParser::NameId(std::string_view name) {
  const auto [it, fresh] =
      name_ids_.emplace(std::string(name), static_cast<int>(program_.names.size()));
  if (fresh) program_.names.emplace_back(name);
  return it->second;
}

JinjaParser::StmtPtr JinjaParser::NewStmt(JinjaStmt::Kind kind) const {
  auto node = std::make_unique<JinjaStmt>();
  node->kind = kind;
  node->begin = Now().begin;
  return node;
}

JinjaBody JinjaParser::Body(std::initializer_list<std::string_view> ends, std::string* end) {
  const Level level(*this);
  JinjaBody body;
  while (Now().kind != Kind::kEnd) {
    if (Now().kind == Kind::kText) {
      StmtPtr node = NewStmt(JinjaStmt::Kind::kText);
      node->text = Take().text;
      body.push_back(std::move(node));
    } else if (Now().kind == Kind::kPrintBegin) {
      StmtPtr node = NewStmt(JinjaStmt::Kind::kPrint);
      Take();
      node->expr = Tuple(true, false, Now().begin);
      if (Now().kind != Kind::kPrintEnd) Fail("expected \"}}\"");
      Take();
      body.push_back(std::move(node));
    } else {
      Take();  // {%
      if (Now().kind != Kind::kName) Fail("expected a statement's name");
      if (std::find(ends.begin(), ends.end(), Now().text) != ends.end()) {
        std::string word = Take().text;
        if (end != nullptr) *end = std::move(word);
        return body;
      }
      body.push_back(Statement());
    }
  }
  if (ends.size() > 0) Fail("expected {% " + std::string(*(ends.end() - 1)) + " %}");
  return body;
}

JinjaBody JinjaParser::BlockBody(std::string_view end) {
  SkipOp(":");
  ExpectBlockEnd();
  JinjaBody body = Body({end});
  ExpectBlockEnd();
  return body;
}

JinjaParser::StmtPtr JinjaParser::Statement() {
  const std::string& word = Now().text;
  if (word == "if") return If();
  if (word == "for") return For();
  if (word == "set") return Set();
  if (word == "macro") return Macro();
  if (word == "call") return CallBlock();
  if (word == "filter") return FilterBlock();
  if (word == "with") return With();
  if (word == "generation") return Scope("endgeneration");
  if (word == "break") return LoopControl(JinjaStmt::Kind::kBreak);
  if (word == "continue") return LoopControl(JinjaStmt::Kind::kContinue);
  if (word == "print") {
    StmtPtr node = NewStmt(JinjaStmt::Kind::kPrint);
    Take();
    node->expr = Tuple(true, false, Now().begin);
    ExpectBlockEnd();
    return node;
  }
  Fail("a statement that is not known or not supported");
}

JinjaParser::StmtPtr JinjaParser::LoopControl(JinjaStmt::Kind kind) {
  if (loops_ == 0) Fail("outside of a loop");
  StmtPtr node = NewStmt(kind);
  Take();
  ExpectBlockEnd();
  return node;
}

JinjaParser::StmtPtr JinjaParser::If() {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kIf);
  std::string end;
  Take();
  ++soft_;
  do {
    JinjaExprPtr condition = Tuple(false, false, Now().begin);
    SkipOp(":");
    ExpectBlockEnd();
    JinjaBody body = Body({"elif", "else", "endif"}, &end);
    node->branches.emplace_back(std::move(condition), std::move(body));
  } while (end == "elif");
  if (end == "else") {
    SkipOp(":");
    ExpectBlockEnd();
    node->orelse = Body({"endif"});
  }
  --soft_;
  ExpectBlockEnd();
  return node;
}

JinjaParser::StmtPtr JinjaParser::For() {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kFor);
  Take();
  node->target = Target(false);
  if (!SkipWord("in")) Fail("expected \"in\"");
  node->expr = Tuple(false, false, Now().begin);
  if (SkipWord("if")) node->condition = Expression();
  node->recursive = SkipWord("recursive");
  SkipOp(":");
  ExpectBlockEnd();
  std::string end;
  ++loops_;
  node->body = Body({"else", "endfor"}, &end);
  --loops_;
  if (end == "else") {
    SkipOp(":");
    ExpectBlockEnd();
    node->orelse = Body({"endfor"});
  }
  ExpectBlockEnd();
  return node;
}

JinjaParser::StmtPtr JinjaParser::Set() {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kSet);
  Take();
  node->target = Target(true);
  if (SkipOp("=")) {
    node->expr = Tuple(true, false, Now().begin);
    ExpectBlockEnd();
    return node;
  }
  node->kind = JinjaStmt::Kind::kSetBlock;
  node->expr = Filters(nullptr, false);
  node->body = BlockBody("endset");
  return node;
}

JinjaSignature JinjaParser::Signature() {
  JinjaSignature signature;
  ExpectOp("(");
  while (!IsOp(")")) {
    if (!signature.names.empty()) ExpectOp(",");
    std::string name = ExpectName("a parameter's name");
    signature.names.push_back(NameId(name));
    signature.spelled.push_back(std::move(name));
    if (SkipOp("=")) {
      signature.defaults.push_back(Expression());
    } else if (!signature.defaults.empty()) {
      Fail("a parameter without a default behind one with");
    }
  }
  ExpectOp(")");
  return signature;
}

JinjaBody JinjaParser::MacroBody(std::string_view end, JinjaSignature& signature) {
  const bool varargs = std::exchange(saw_varargs_, false);
  const bool kwargs = std::exchange(saw_kwargs_, false);
  const int loops = std::exchange(loops_, 0);
  JinjaBody body = BlockBody(end);
  signature.uses_varargs = std::exchange(saw_varargs_, varargs);
  signature.uses_kwargs = std::exchange(saw_kwargs_, kwargs);
  loops_ = loops;
  return body;
}

JinjaParser::StmtPtr JinjaParser::Macro() {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kMacro);
  Take();
  node->text = ExpectName("a macro's name");
  node->name = NameId(node->text);
  node->signature = Signature();
  node->body = MacroBody("endmacro", node->signature);
  return node;
}

JinjaParser::StmtPtr JinjaParser::CallBlock() {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kCall);
  Take();
  if (IsOp("(")) node->signature = Signature();
  node->text = "caller";
  node->expr = Expression();
  if (node->expr->kind != JinjaExpr::Kind::kCall) Fail("expected a call");
  node->body = MacroBody("endcall", node->signature);
  return node;
}

JinjaParser::StmtPtr JinjaParser::FilterBlock() {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kFilter);
  Take();
  node->expr = Filters(nullptr, true);
  node->body = BlockBody("endfilter");
  return node;
}

JinjaParser::StmtPtr JinjaParser::With() {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kWith);
  Take();
  while (Now().kind != Kind::kBlockEnd) {
    if (!node->bindings.empty()) ExpectOp(",");
    JinjaExprPtr target = TargetPart(false);
    ExpectOp("=");
    node->bindings.emplace_back(std::move(target), Expression());
  }
  node->body = BlockBody("endwith");
  return node;
}

JinjaParser::StmtPtr JinjaParser::Scope(std::string_view end) {
  StmtPtr node = NewStmt(JinjaStmt::Kind::kWith);
  Take();
  JinjaSignature ignored;
  node->body = MacroBody(end, ignored);
  return node;
}

JinjaExprPtr JinjaParser::TargetPart(bool with_namespace) {
  const size_t begin = Now().begin;
  if (SkipOp("(")) {
    JinjaExprPtr inner = Target(with_namespace);
    ExpectOp(")");
    return inner;
  }
  auto node = NewExpr(JinjaExpr::Kind::kName, begin);
  node->text = ExpectName("a variable's name");
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (node->text == word) Fail("cannot assign to \"" + node->text + "\"");
  }
  node->name = NameId(node->text);
  if (with_namespace && SkipOp(".")) {
    node->kind = JinjaExpr::Kind::kNameAttr;
    node->text = ExpectName("an attribute's name");
  }
  return Finish(std::move(node));
}

JinjaExprPtr JinjaParser::Target(bool with_namespace) {
  const Level level(*this);
  auto node = NewExpr(JinjaExpr::Kind::kTuple, Now().begin);
  AddPart(*node, TargetPart(with_namespace));
  if (!IsOp(",")) return std::move(node->parts[0]);
  while (SkipOp(",")) {
    if (IsWord("in") || IsOp("=") || IsOp(")")) break;
    AddPart(*node, TargetPart(with_namespace));
  }
  return Finish(std::move(node));
}

}  // namespace tidemill
