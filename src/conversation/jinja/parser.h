// Tokens to statements and expressions, with the grammar and precedence of jinja2.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "conversation/jinja/lexer.h"
#include "conversation/jinja/syntax.h"

namespace tidemill {

class JinjaParser {
 public:
  explicit JinjaParser(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}
  JinjaProgram Run();

 private:
  using Kind = JinjaToken::Kind;
  class Level;  // one of nesting

  // Tokens.
  const JinjaToken& Now() const { return tokens_[at_]; }
  const JinjaToken& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  JinjaToken Take();
  bool IsOp(std::string_view op) const { return Now().kind == Kind::kOperator && Now().text == op; }
  bool IsWord(std::string_view word) const {
    return Now().kind == Kind::kName && Now().text == word;
  }
  bool SkipOp(std::string_view op);
  bool SkipWord(std::string_view word);
  void ExpectOp(std::string_view op);
  std::string ExpectName(std::string_view what);
  void ExpectBlockEnd();
  [[noreturn]] void Fail(std::string message) const;
  int NameId(std::string_view name);

  // Statements.
  using StmtPtr = std::unique_ptr<JinjaStmt>;
  // Up to a tag that starts with one of `ends`, whose word is returned in `end` (its tag is left
  // open); without `ends` up to the end of the template.
  JinjaBody Body(std::initializer_list<std::string_view> ends, std::string* end = nullptr);
  // A tag's end, its body, and the tag that ends it.
  JinjaBody BlockBody(std::string_view end);
  StmtPtr Statement();
  StmtPtr If();
  StmtPtr For();
  StmtPtr Set();
  StmtPtr Macro();
  StmtPtr CallBlock();
  StmtPtr FilterBlock();
  StmtPtr With();
  StmtPtr Scope(std::string_view end);
  StmtPtr LoopControl(JinjaStmt::Kind kind);
  JinjaSignature Signature();
  StmtPtr NewStmt(JinjaStmt::Kind kind) const;
  // A macro's body; notes whether it uses varargs and kwargs.
  JinjaBody MacroBody(std::string_view end, JinjaSignature& signature);

  // Expressions.
  JinjaExprPtr Expression() { return Conditional(); }
  JinjaExprPtr Conditional();
  JinjaExprPtr Or();
  JinjaExprPtr And();
  JinjaExprPtr Not();
  JinjaExprPtr Compare();
  JinjaExprPtr Sum();
  JinjaExprPtr Concat();
  JinjaExprPtr Product();
  JinjaExprPtr Power();
  JinjaExprPtr Unary(bool with_filter);
  JinjaExprPtr Primary();
  JinjaExprPtr Number();
  JinjaExprPtr ListLiteral();
  JinjaExprPtr MapLiteral();
  JinjaExprPtr Postfix(JinjaExprPtr node);
  JinjaExprPtr Filters(JinjaExprPtr node, bool start_inline);
  JinjaExprPtr Subscript(JinjaExprPtr node);
  JinjaExprPtr Test(JinjaExprPtr node);
  JinjaExprPtr CallOf(JinjaExprPtr node);
  void CallArgs(JinjaExpr& call);
  // Expressions with commas between them are a tuple.
  JinjaExprPtr Tuple(bool conditional, bool parenthesized, size_t begin);
  bool IsTupleEnd() const;
  JinjaExprPtr Target(bool with_namespace);
  JinjaExprPtr TargetPart(bool with_namespace);
  JinjaExprPtr NewExpr(JinjaExpr::Kind kind, size_t begin) const;
  // Adds a part; throws where the expression would nest too deep.
  void AddPart(JinjaExpr& node, JinjaExprPtr part) const;
  JinjaExprPtr Finish(JinjaExprPtr node) const;
  JinjaExprPtr BinaryOf(JinjaExprPtr left, std::string op, JinjaExprPtr right) const;
  JinjaExprPtr ConstOf(JinjaValue value, size_t begin) const;
  void Deepen(JinjaExpr& node, const JinjaExpr& part) const;
  // Filters and tests nobody knows are refused at once, unless a condition may keep them from
  // being reached, as in jinja2.
  void CheckKnown(bool known, std::string_view what, std::string_view name) const;

  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
  int level_ = 0;
  int soft_ = 0;   // conditions around this place
  int loops_ = 0;  // loops around this place
  bool saw_varargs_ = false;
  bool saw_kwargs_ = false;
  JinjaProgram program_;
  std::unordered_map<std::string, int> name_ids_;
};

class JinjaParser::Level {
 public:
  explicit Level(JinjaParser& parser) : parser_(parser) {
    if (++parser_.level_ > 200) {
      --parser_.level_;
      parser_.Fail("nested too deep");
    }
  }
  ~Level() { --parser_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  JinjaParser& parser_;
};

}  // namespace tidemill
