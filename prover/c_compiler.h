// The compiler's insides: a function's tree -> instructions (c_machine.h).
#pragma once

#include <cstdint>
#include <vector>

#include "prover/c_ast.h"
#include "prover/c_instructions.h"
#include "prover/c_machine.h"

namespace tidemill {

class CCompiler {
 public:
  CCompiler(const CProgram& program, const CFunction& function)
      : program_(program), function_(function) {}

  // False: more registers than an instruction can name.
  bool Run(CCode::Function& out);

 private:
  using Register = uint16_t;
  struct Label {
    int32_t at = -1;
    std::vector<size_t> jumps = {};  // instructions that want to go there
  };
  struct Place {
    Register value = 0;   // the variable's, or its address where it lives in memory
    Register is_set = 0;  // where it may be unset
  };
  // An address: a pointer and how far to go from it.
  struct Target {
    Register pointer = 0;
    Register moved = 0;
  };

  // Instructions and registers.
  CInstruction& Emit(CHandler run, uint32_t line, Register a = 0, Register b = 0, Register c = 0);
  void EmitJump(CHandler run, uint32_t line, Label& to, Register a = 0);
  void Bind(Label& label);
  Register Temporary();
  const CVariable& Variable(uint32_t index) const { return VariableOf(program_, function_, index); }

  // Expressions. The register may be a variable's own.
  Register Evaluate(const CExpr& expr);
  void EvaluateTo(const CExpr& expr, Register to);
  void EvaluateVariable(const CExpr& expr, Register to);
  void EvaluateBinary(const CExpr& expr, Register to);
  void EvaluateLogical(const CExpr& expr, Register to);
  void EvaluateChoose(const CExpr& expr, Register to);
  void EvaluateAddress(const CExpr& expr, Register to);
  void EvaluateOffset(const CExpr& expr, Register to, bool accessed);
  void EvaluateAssign(const CExpr& expr, Register to);
  void EvaluateUpdate(const CExpr& expr, Register to, bool gives_old);
  void Discard(const CExpr& expr);
  void EvaluateCall(const CExpr& expr, Register to, bool discards);
  void EvaluateBuiltin(const CExpr& expr, Register to);
  void Apply(const CExpr& expr, CIntType type, const CExpr& right, Register to, Register left);
  void Convert(CIntType from, CIntType to, Register to_register, Register from_register,
               uint32_t line);
  Target Reach(const CExpr& address);
  Target ReachVariable(uint32_t index, uint32_t line);
  void Branch(const CExpr& condition, bool when, Label& to);
  void MarkSet(uint32_t index, uint32_t line);

  // Statements.
  void Compile(const CStatement& statement);
  void CompileDeclare(const CStatement& statement);
  void CompileIf(const CStatement& statement);
  void CompileLoop(const CStatement& statement);
  void CompileSwitch(const CStatement& statement);
  void CompileReturn(const CStatement& statement);
  void ForgetDeclared(const CStatement& statement);
  void FindCases(const CStatement& statement, std::vector<const CStatement*>& cases);

  const CProgram& program_;
  const CFunction& function_;
  CCode::Function* out_ = nullptr;
  std::vector<Place> places_;
  uint32_t next_ = 0;  // the first register that is free
  uint32_t highest_ = 0;
  Register zero_ = 0;  // always 0
  Label* break_ = nullptr;
  Label* continue_ = nullptr;
  std::vector<std::pair<const CStatement*, Label*>> case_labels_;
};

}  // namespace tidemill
