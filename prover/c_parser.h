// The parser's insides: one class, its parts in c_parse_declarations.cc, c_parse_statements.cc,
// c_parse_expressions.cc and c_build.cc. The first failure is kept and the parser then sees only
// the end of the text, so that it leaves its functions by the usual way.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "prover/c_ast.h"
#include "prover/c_lexer.h"

namespace tidemill {

class CParser {
 public:
  explicit CParser(std::vector<CToken> tokens) : tokens_(std::move(tokens)) {}

  // Every declaration of the file; Finish reads the bodies of functions.
  Status ReadFile();
  std::vector<std::string> DefinedFunctions() const;
  // With the bodies of all functions but main, which nothing but a program's start runs.
  Result<CProgram> Finish(std::string_view entry);
  // The failure, if no compiler could read on where it was found.
  const Status& grammar_fault() const { return grammar_fault_; }

 private:
  struct Symbol {
    enum class Kind : uint8_t { kVariable, kConstant, kType, kFunction };
    Kind kind = Kind::kVariable;
    uint32_t index = 0;
    int64_t value = 0;
    CType type = {};
  };
  struct Specifiers {
    CType type;
    bool is_typedef = false;
    bool is_static = false;
    bool is_extern = false;
    bool is_register = false;
    bool is_inline = false;
    bool is_const = false;
    int storages = 0;  // how many of typedef, static, extern and register
  };
  struct Declarator {
    std::string_view name;
    uint32_t line = 0;
    CType type;
    bool is_function = false;
    bool open_array = false;  // the outermost length is not said
    std::vector<CVariable> parameters;
  };
  struct FunctionState {
    bool defined = false;
    bool is_static = false;
    size_t body = 0;  // the token behind its "{"
  };
  struct OpenSwitch {
    CIntType type;
    std::vector<int64_t> cases = {};
    bool has_default = false;
  };
  struct InitialCells {
    std::vector<uint32_t> cells;
    std::vector<CExprPtr> exprs;
    uint64_t length = 0;  // of the outermost dimension, as far as seen
  };

  // Tokens.
  const CToken& Look(size_t ahead = 0) const;
  bool Is(std::string_view word) const { return Look().Is(word); }
  bool IsNext(std::string_view word) const { return Look(1).Is(word); }
  CToken Take();
  bool Accept(std::string_view word);
  void Expect(std::string_view word);
  std::string Shown() const;  // the present token, for messages
  bool failed() const { return !fault_.ok(); }
  void FailNotC(std::string_view what) { Keep(NotC(Look().line, what)); }
  // As FailNotC, where no compiler could read on.
  void FailGrammar(std::string_view what) {
    if (!failed()) grammar_fault_ = NotC(Look().line, what);
    FailNotC(what);
  }
  void FailSubset(std::string_view what) { Keep(NotInSubset(Look().line, what)); }
  void Keep(Status fault);
  bool TooDeep();

  // Names.
  const Symbol* Find(std::string_view name) const;
  void Declare(std::string_view name, Symbol symbol);
  CVariable& Variable(uint32_t index);
  uint32_t AddVariable(CVariable variable);
  bool StartsType(const CToken& token) const;

  // Declarations.
  void ReadExternal();
  void PassBody();
  Specifiers ReadSpecifiers();
  // Nothing is declared: ";" follows, which it may, or the text was wrong.
  bool DeclaresNothing(const Specifiers& specifiers);
  bool ReadStorage(Specifiers& specifiers);
  bool ReadAttribute();
  bool ReadStaticAssert();
  void ReadEnum(Specifiers& specifiers);
  void ReadUnknownType();
  Declarator ReadDeclarator(const CType& base, bool abstract);
  void ReadArraySuffix(Declarator& declarator);
  void ReadParameters(Declarator& declarator);
  void ReadOldParameters(Declarator& declarator);
  CType ReadTypeName();
  void DeclareFunction(const Specifiers& specifiers, Declarator& declarator, bool has_body);
  void NoteLinkage(const Specifiers& specifiers, bool is_new, FunctionState& state);
  void DeclareStatic(const Specifiers& specifiers, Declarator& declarator);
  void DeclareLocal(const Specifiers& specifiers, Declarator& declarator,
                    std::vector<CStatementPtr>& out);
  InitialCells ReadInitial(const CType& type);
  void ReadArrayInitial(const CType& type, bool open, uint64_t base, InitialCells& out);
  std::string ReadString();
  void ReadStringInitial(const CType& type, bool open, uint64_t base, InitialCells& out);
  CExprPtr MakeString();
  void ReadElements(const CType& type, uint64_t base, InitialCells& out);
  void AddInitialCell(const CType& type, uint64_t cell, InitialCells& out);
  bool ConstantValue(int64_t& value);  // of the expression that follows
  bool FoldSize(const CExpr& expr, int64_t& value) const;
  void ParseBody(uint32_t function);

  // Statements.
  CStatementPtr ParseStatement();
  CStatementPtr ParseBlock();
  void ParseItem(std::vector<CStatementPtr>& out);
  void ParseDeclaration(std::vector<CStatementPtr>& out, bool in_for = false);
  CStatementPtr ParseIf();
  CStatementPtr ParseWhile();
  CStatementPtr ParseDo();
  CStatementPtr ParseFor();
  CStatementPtr ParseSwitch();
  CStatementPtr ParseLabel();
  CStatementPtr ParseReturn();
  CStatementPtr ParseLoopBody();
  CStatementPtr NewStatement(CStatementKind kind);

  // Expressions. What comes back may be an lvalue or an array; Value() makes a value of it.
  CExprPtr ParseExpression();
  CExprPtr ParseAssignment();
  CExprPtr ParseChoice();
  CExprPtr ParseBinary(int lowest);
  CExprPtr ParseUnary();
  CExprPtr ParseSizeof();
  CExprPtr ParseCast();
  CExprPtr ParsePostfix();
  CExprPtr ParsePrimary();
  CExprPtr ParseName();
  CExprPtr ParseCall(const CToken& name);
  CExprPtr ParseCondition();  // in parentheses

  // Nodes.
  CExprPtr New(CExprKind kind, CType type);
  void Adopt(CExpr& parent, CExprPtr child);
  CExprPtr Constant(int64_t value, CIntType type);
  CExprPtr Value(CExprPtr expr);    // as an rvalue; an array becomes a pointer
  CExprPtr Integer(CExprPtr expr);  // an rvalue that must be an integer
  CExprPtr Scalar(CExprPtr expr);   // an rvalue that is an integer or a pointer
  CExprPtr Converted(CExprPtr expr, CIntType type);
  CExprPtr AsType(CExprPtr expr, const CType& type);  // as if by assignment
  CExprPtr MakeBinary(COp op, CExprPtr left, CExprPtr right);
  CExprPtr MakePointerSum(COp op, CExprPtr left, CExprPtr right);
  CExprPtr MakeCompare(COp op, CExprPtr left, CExprPtr right);
  CExprPtr MakeUnary(CExprKind kind, CExprPtr operand);
  CExprPtr MakeLogical(CExprKind kind, CExprPtr left, CExprPtr right);
  CExprPtr MakeChoice(CExprPtr condition, CExprPtr yes, CExprPtr no);
  CExprPtr MakeSubscript(CExprPtr base, CExprPtr index);
  CExprPtr MakeDereference(CExprPtr pointer);
  CExprPtr MakeAddress(CExprPtr operand);
  CExprPtr MakeAssign(CExprPtr target, CExprPtr value);
  CExprPtr MakeUpdate(COp op, CExprPtr target, CExprPtr value, bool gives_old);
  CExprPtr MakeCall(uint32_t function, std::vector<CExprPtr> args, uint32_t line);
  CExprPtr MakeBuiltin(std::string_view name, std::vector<CExprPtr> args);
  CExprPtr MakeMemory(CBuiltin builtin, std::vector<CExprPtr> args);
  bool Writable(const CExpr& target);
  bool IsNull(const CExpr& expr) const;
  uint16_t PointerDepth(const CExpr& expr);

  std::vector<CToken> tokens_;
  size_t at_ = 0;
  Status fault_;
  Status grammar_fault_;
  int depth_ = 0;
  std::deque<std::map<std::string, Symbol, std::less<>>> scopes_;
  std::map<std::string, CType> enums_;
  CProgram program_;
  std::vector<FunctionState> states_;  // one for each of program_.functions
  CFunction* function_ = nullptr;      // the one whose body is read
  int loops_ = 0;
  int switches_ = 0;
  std::vector<OpenSwitch> open_switches_;
};

// From standard headers: a constant ("INT_MAX"), a type ("int32_t").
bool FindHeaderConstant(std::string_view name, CIntType& type, int64_t& value);
bool FindHeaderType(std::string_view name, CIntType& type);
// A builtin and the type of its one argument. memset and memcpy have others.
bool FindBuiltin(std::string_view name, CBuiltin& builtin, CIntType& argument);
bool IsBuiltin(std::string_view name);
// A function or variable of the standard library: compilers know what it means, and its header may
// have declared it.
bool IsLibraryName(std::string_view name);
// Kept for compilers: "__x" and "_X".
bool IsReserved(std::string_view name);

}  // namespace tidemill
