#include <limits>

#include "prover/c_compiler.h"

namespace tidemill {

CInstruction& CCompiler::Emit(CHandler run, uint32_t line, Register a, Register b, Register c) {
  CInstruction instruction;
  instruction.run = run;
  instruction.a = a;
  instruction.b = b;
  instruction.c = c;
  instruction.line = line;
  out_->code.push_back(instruction);
  return out_->code.back();
}

void CCompiler::EmitJump(CHandler run, uint32_t line, Label& to, Register a) {
  Emit(run, line, a);
  const size_t here = out_->code.size() - 1;
  to.jumps.push_back(here);
  if (to.at >= 0) Bind(to);
}

// The label is at the next instruction, or where it was bound before.
void CCompiler::Bind(Label& label) {
  if (label.at < 0) label.at = static_cast<int32_t>(out_->code.size());
  for (const size_t jump : label.jumps) {
    out_->code[jump].jump = label.at - static_cast<int32_t>(jump);
  }
  label.jumps.clear();
}

CCompiler::Register CCompiler::Temporary() {
  const uint32_t mine = next_++;
  highest_ = std::max(highest_, next_);
  return static_cast<Register>(mine);
}

bool CCompiler::Run(CCode::Function& out) {
  out_ = &out;
  const size_t count = function_.variables.size();
  next_ = function_.parameters;
  highest_ = next_;
  places_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const CVariable& variable = function_.variables[i];
    const bool in_memory = variable.in_memory();
    places_[i].value =
        i < function_.parameters && !in_memory ? static_cast<Register>(i) : Temporary();
    if (variable.may_be_unset && !in_memory) places_[i].is_set = Temporary();
    if (in_memory) {
      out.objects.push_back({static_cast<uint32_t>(CellsOf(variable.type)), places_[i].value});
    }
  }
  zero_ = Temporary();
  Emit(CInstructions::Const, function_.line, zero_).imm = 0;
  for (uint32_t i = 0; i < function_.parameters; ++i) {
    if (!function_.variables[i].in_memory()) continue;
    Emit(CInstructions::Store, function_.line, places_[i].value, zero_, static_cast<Register>(i));
  }
  Compile(*function_.body);
  // Behind the last statement.
  if (function_.result.is_void()) {
    Emit(CInstructions::Return, function_.line, zero_);
  } else {
    Emit(CInstructions::NoReturn, function_.line);
  }
  out.registers = highest_ + 1;
  return highest_ < std::numeric_limits<Register>::max() - 64;
}

void CCompiler::Compile(const CStatement& statement) {
  const uint32_t mark = next_;
  switch (statement.kind) {
    case CStatementKind::kExpression:
      Discard(*statement.exprs[0]);
      break;
    case CStatementKind::kDeclare:
      CompileDeclare(statement);
      break;
    case CStatementKind::kBlock:
      for (const CStatementPtr& inner : statement.body) Compile(*inner);
      break;
    case CStatementKind::kIf:
      CompileIf(statement);
      break;
    case CStatementKind::kWhile:
    case CStatementKind::kDo:
    case CStatementKind::kFor:
      CompileLoop(statement);
      break;
    case CStatementKind::kSwitch:
      CompileSwitch(statement);
      break;
    case CStatementKind::kCase:
    case CStatementKind::kDefault:
      for (auto& [label, to] : case_labels_) {
        if (label == &statement) Bind(*to);
      }
      break;
    case CStatementKind::kBreak:
      EmitJump(CInstructions::Jump, statement.line, *break_);
      break;
    case CStatementKind::kContinue:
      EmitJump(CInstructions::Jump, statement.line, *continue_);
      break;
    case CStatementKind::kReturn:
      CompileReturn(statement);
      break;
  }
  next_ = mark;
}

void CCompiler::CompileDeclare(const CStatement& statement) {
  const CVariable& variable = Variable(statement.index);
  const Place place = places_[statement.index];
  if (!variable.in_memory()) {
    if (statement.initialised) EvaluateTo(*statement.exprs[0], place.value);
    if (variable.may_be_unset) {
      Emit(CInstructions::Const, statement.line, place.is_set).imm = statement.initialised ? 1 : 0;
    }
    return;
  }
  if (!statement.initialised) {
    Emit(CInstructions::UnsetObject, statement.line, place.value);
    return;
  }
  Emit(CInstructions::ZeroObject, statement.line, place.value);
  for (size_t i = 0; i < statement.exprs.size(); ++i) {
    const uint32_t mark = next_;
    const Register value = Evaluate(*statement.exprs[i]);
    const Register cell = Temporary();
    Emit(CInstructions::Const, statement.line, cell).imm = statement.cells[i];
    Emit(CInstructions::Store, statement.line, place.value, cell, value);
    next_ = mark;
  }
}

void CCompiler::CompileIf(const CStatement& statement) {
  Label no, end;
  Branch(*statement.exprs[0], false, no);
  Compile(*statement.body[0]);
  if (statement.body.size() > 1) {
    EmitJump(CInstructions::Jump, statement.line, end);
    Bind(no);
    Compile(*statement.body[1]);
    Bind(end);
  } else {
    Bind(no);
  }
}

// The condition stands at the end, so that a turn takes one jump.
void CCompiler::CompileLoop(const CStatement& statement) {
  const bool is_for = statement.kind == CStatementKind::kFor;
  const CExpr* condition = statement.exprs[0].get();
  const CExpr* step = is_for ? statement.exprs[1].get() : nullptr;
  if (is_for) Compile(*statement.body[1]);
  Label start, again, test, end;
  Label* const outer_break = std::exchange(break_, &end);
  Label* const outer_continue = std::exchange(continue_, &again);
  if (statement.kind != CStatementKind::kDo) {
    EmitJump(CInstructions::Jump, statement.line, test);
  }
  Bind(start);
  Compile(*statement.body[0]);
  Bind(again);
  if (step != nullptr) {
    const uint32_t mark = next_;
    Discard(*step);
    next_ = mark;
  }
  Bind(test);
  if (condition != nullptr) {
    Branch(*condition, true, start);
  } else {
    EmitJump(CInstructions::Jump, statement.line, start);
  }
  Bind(start);
  Bind(end);
  break_ = outer_break;
  continue_ = outer_continue;
}

void CCompiler::FindCases(const CStatement& statement, std::vector<const CStatement*>& cases) {
  if (statement.kind == CStatementKind::kCase || statement.kind == CStatementKind::kDefault) {
    cases.push_back(&statement);
  }
  if (statement.kind == CStatementKind::kSwitch) return;  // has cases of its own
  for (const CStatementPtr& inner : statement.body) FindCases(*inner, cases);
}

// A jump to a case passes over declarations: what they declare has no value then.
void CCompiler::ForgetDeclared(const CStatement& statement) {
  if (statement.kind == CStatementKind::kDeclare) {
    if (Variable(statement.index).in_memory()) {
      Emit(CInstructions::UnsetObject, statement.line, places_[statement.index].value);
    } else {
      Emit(CInstructions::Const, statement.line, places_[statement.index].is_set).imm = 0;
    }
  }
  for (const CStatementPtr& inner : statement.body) ForgetDeclared(*inner);
}

void CCompiler::CompileSwitch(const CStatement& statement) {
  const CExpr& value = *statement.exprs[0];
  std::vector<const CStatement*> cases;
  FindCases(*statement.body[0], cases);
  const Register decided = Evaluate(value);
  ForgetDeclared(*statement.body[0]);
  std::vector<Label> labels(cases.size());
  Label end;
  Label* otherwise = &end;
  const size_t outer = case_labels_.size();
  for (size_t i = 0; i < cases.size(); ++i) {
    case_labels_.emplace_back(cases[i], &labels[i]);
    if (cases[i]->kind == CStatementKind::kDefault) {
      otherwise = &labels[i];
      continue;
    }
    CInstruction& jump = Emit(CInstructions::JumpCompare(COp::kEq, value.type.base, true),
                              statement.line, 0, decided);
    jump.imm = cases[i]->value;
    labels[i].jumps.push_back(out_->code.size() - 1);
  }
  EmitJump(CInstructions::Jump, statement.line, *otherwise);
  Label* const outer_break = std::exchange(break_, &end);
  Compile(*statement.body[0]);
  Bind(end);
  break_ = outer_break;
  case_labels_.resize(outer);
}

void CCompiler::CompileReturn(const CStatement& statement) {
  if (statement.exprs.empty()) {
    Emit(CInstructions::Return, statement.line, zero_);
  } else {
    Emit(CInstructions::Return, statement.line, Evaluate(*statement.exprs[0]));
  }
}

Result<CCode> CompileC(const CProgram& program) {
  CCode code;
  code.statics = program.statics;
  code.entry = program.entry;
  code.functions.resize(program.functions.size());
  for (size_t i = 0; i < program.functions.size(); ++i) {
    const CFunction& function = program.functions[i];
    if (function.body == nullptr) continue;
    if (!CCompiler(program, function).Run(code.functions[i])) {
      return Unavailable("\"" + function.name + "\" is too large");
    }
  }
  return code;
}

}  // namespace tidemill
