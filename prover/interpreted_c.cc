#include <algorithm>
#include <iterator>
#include <utility>

#include "prover/c_ast.h"
#include "prover/c_lexer.h"
#include "prover/c_machine.h"
#include "prover/prover.h"

namespace tidemill {
namespace {

// Words that mean the same to every compiler, and no call but the function's own head: what a
// header or a library would have to say is not known here.
bool HasPlainWords(const std::vector<CToken>& tokens, std::string_view function) {
  static constexpr std::string_view kHeads[] = {"if", "while", "for", "switch", "return", "sizeof"};
  size_t called = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].Is("#") || tokens[i].kind == CToken::Kind::kString) return false;
    if (tokens[i].kind != CToken::Kind::kName) continue;
    if (tokens[i].text.find('_') != std::string_view::npos) return false;
    if (!tokens[i + 1].Is("(")) continue;
    if (std::find(std::begin(kHeads), std::end(kHeads), tokens[i].text) != std::end(kHeads))
      continue;
    if (!tokens[i].Is(function) || ++called > 1) return false;
  }
  return true;
}

}  // namespace

struct InterpretedC::Insides {
  CProgram program;
  CCode code;
  std::optional<CMachine> machine;  // borrows the code
  bool plain_words = false;

  const CFunction& function() const { return program.functions[program.entry]; }
};

InterpretedC::InterpretedC(std::unique_ptr<Insides> insides) : insides_(std::move(insides)) {}
InterpretedC::InterpretedC(InterpretedC&&) noexcept = default;
InterpretedC& InterpretedC::operator=(InterpretedC&&) noexcept = default;
InterpretedC::~InterpretedC() = default;

Result<InterpretedC> InterpretedC::Read(std::string_view text, std::string_view function) {
  auto insides = std::make_unique<Insides>();
  TM_ASSIGN_OR_RETURN(insides->program, ParseC(text, function));
  TM_ASSIGN_OR_RETURN(insides->code, CompileC(insides->program));
  insides->machine.emplace(insides->code);
  TM_ASSIGN_OR_RETURN(const std::vector<CToken> tokens, LexC(text));
  insides->plain_words = HasPlainWords(tokens, function);
  return InterpretedC(std::move(insides));
}

bool InterpretedC::IsPlain(size_t ints) const {
  const CFunction& function = insides_->function();
  if (!insides_->plain_words || insides_->program.functions.size() != 1 ||
      !insides_->program.statics.empty() || function.parameters != ints) {
    return false;
  }
  const CType integer = IntType(kCInt);
  const auto is_int = [&](const CVariable& parameter) { return parameter.type == integer; };
  return function.result == integer &&
         std::all_of(function.variables.begin(),
                     function.variables.begin() + static_cast<ptrdiff_t>(ints), is_int);
}

std::optional<int64_t> InterpretedC::Call(std::span<const int64_t> inputs, uint64_t steps_max) {
  const CFunction& function = insides_->function();
  if (inputs.size() != function.parameters) return std::nullopt;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!function.variables[i].type.is_int()) return std::nullopt;
  }
  const CRun run = insides_->machine->Run(inputs, steps_max);
  if (run.end != CRun::End::kReturned || run.read_unset) return std::nullopt;
  return run.value;
}

}  // namespace tidemill
