#include "prover/c_parser.h"

#include <algorithm>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr int kNestingMax = 200;
constexpr size_t kVariablesMax = 4096;

}  // namespace

const CToken& CParser::Look(size_t ahead) const {
  return failed() ? tokens_.back() : tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

CToken CParser::Take() {
  const CToken token = Look();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool CParser::Accept(std::string_view word) {
  if (!Is(word)) return false;
  Take();
  return true;
}

void CParser::Expect(std::string_view word) {
  if (!Accept(word)) FailGrammar("expected \"" + std::string(word) + "\", got " + Shown());
}

std::string CParser::Shown() const {
  if (Look().kind == CToken::Kind::kEnd) return "the end of the text";
  return "\"" + Beginning(Look().text, 40) + "\"";
}

void CParser::Keep(Status fault) {
  if (fault_.ok()) fault_ = std::move(fault);
}

bool CParser::TooDeep() {
  if (depth_ > kNestingMax) FailSubset("nested too deep");
  return failed();
}

bool IsReserved(std::string_view name) {
  return name.size() > 1 && name[0] == '_' &&
         (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z'));
}

const CParser::Symbol* CParser::Find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(name);
    if (found != scope->end()) return &found->second;
  }
  return nullptr;
}

void CParser::Declare(std::string_view name, Symbol symbol) {
  if (IsHeaderName(name) && symbol.kind != Symbol::Kind::kFunction) {
    return FailSubset("\"" + std::string(name) + "\" as a name of one's own");
  }
  // The outermost block of a function has the scope of its parameters.
  if (scopes_.size() == 3 && scopes_[1].count(name) != 0) {
    return FailNotC("\"" + std::string(name) + "\" is declared twice");
  }
  const auto [found, added] = scopes_.back().emplace(name, symbol);
  if (added) return;
  const bool repeated = found->second.kind == symbol.kind && found->second.type == symbol.type &&
                        symbol.kind == Symbol::Kind::kType;
  if (!repeated) FailNotC("\"" + std::string(name) + "\" is declared twice");
}

CVariable& CParser::Variable(uint32_t index) {
  return index >= kCStaticBase ? program_.statics[index - kCStaticBase]
                               : function_->variables[index];
}

uint32_t CParser::AddVariable(CVariable variable) {
  const bool is_static = variable.is_static;
  std::vector<CVariable>& variables = is_static ? program_.statics : function_->variables;
  if (variables.size() >= kVariablesMax) FailSubset("too many variables");
  if (failed()) return 0;
  variables.push_back(std::move(variable));
  return static_cast<uint32_t>(variables.size() - 1) + (is_static ? kCStaticBase : 0);
}

bool CParser::StartsType(const CToken& token) const {
  static constexpr std::string_view kWords[] = {
      "void",     "char",       "short",         "int",         "long",           "signed",
      "unsigned", "_Bool",      "float",         "double",      "struct",         "union",
      "enum",     "const",      "volatile",      "static",      "extern",         "inline",
      "register", "typedef",    "_Complex",      "_Alignas",    "__int128",       "auto",
      "_Atomic",  "__inline",   "__inline__",    "_Noreturn",   "_Thread_local",  "__extension__",
      "__const",  "__signed__", "__attribute__", "__attribute", "_Static_assert", "static_assert",
      "restrict"};
  if (token.kind != CToken::Kind::kName) return false;
  if (std::find(std::begin(kWords), std::end(kWords), token.text) != std::end(kWords)) return true;
  if (const Symbol* symbol = Find(token.text)) return symbol->kind == Symbol::Kind::kType;
  CIntType ignored;
  return FindHeaderType(token.text, ignored);
}

Status CParser::ReadFile() {
  scopes_.emplace_back();
  while (!failed() && Look().kind != CToken::Kind::kEnd) ReadExternal();
  return fault_;
}

// To behind the "}" that belongs to the "{" just taken.
void CParser::PassBody() {
  int depth = 1;
  while (depth > 0) {
    if (Look().kind == CToken::Kind::kEnd) return FailNotC("a \"{\" that is never closed");
    const CToken token = Take();
    if (token.Is("{")) ++depth;
    if (token.Is("}")) --depth;
  }
}

std::vector<std::string> CParser::DefinedFunctions() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].defined) names.push_back(program_.functions[i].name);
  }
  return names;
}

Result<CProgram> CParser::Finish(std::string_view entry) {
  const Symbol* symbol = Find(entry);
  if (symbol == nullptr || symbol->kind != Symbol::Kind::kFunction ||
      !states_[symbol->index].defined) {
    return Invalid("there is no function \"" + std::string(entry) + "\"");
  }
  program_.entry = symbol->index;
  if (states_[symbol->index].is_static) {
    return NotInSubset(program_.functions[symbol->index].line,
                       "a static function, which other files cannot call");
  }
  for (uint32_t i = 0; i < states_.size() && !failed(); ++i) {
    if (states_[i].defined && program_.functions[i].name != "main") ParseBody(i);
  }
  if (failed()) return fault_;
  FindMemoryWrites(program_);
  for (const CFunction& function : program_.functions) {
    if (function.body != nullptr) TM_RETURN_IF_ERROR(CheckSequence(program_, function));
  }
  return std::move(program_);
}

void CParser::ParseBody(uint32_t function) {
  FunctionState& state = states_[function];
  // A copy: reading the body must not move the function it belongs to.
  CFunction read = std::move(program_.functions[function]);
  program_.functions[function].name = read.name;
  program_.functions[function].result = read.result;
  program_.functions[function].parameters = read.parameters;
  program_.functions[function].variables = read.variables;
  function_ = &read;
  at_ = state.body;
  scopes_.resize(1);
  scopes_.emplace_back();
  for (uint32_t i = 0; i < read.parameters; ++i) {
    if (read.variables[i].name.empty()) continue;
    Declare(read.variables[i].name, {Symbol::Kind::kVariable, i, 0, {}});
  }
  loops_ = switches_ = 0;
  read.body = ParseBlock();
  scopes_.resize(1);
  function_ = nullptr;
  program_.functions[function] = std::move(read);
}

Result<std::vector<std::string>> FunctionsOfC(std::string_view text) {
  TM_ASSIGN_OR_RETURN(const std::vector<CToken> raw, LexC(text));
  TM_ASSIGN_OR_RETURN(std::vector<CToken> tokens, PreprocessC(raw));
  CParser parser(std::move(tokens));
  TM_RETURN_IF_ERROR(parser.ReadFile());
  return parser.DefinedFunctions();
}

Status WhyNoC(std::string_view text, std::string_view entry) {
  // A preprocessor may leave anything out, or make it something else.
  if (text.find('#') != std::string_view::npos) return Ok();
  const auto raw = LexC(text);
  if (!raw.ok()) return raw.status().code() == Code::kInvalid ? raw.status() : Ok();
  for (const CToken& token : *raw) {
    if (token.Is("...") || token.Is("typeof") || token.Is("asm")) return Ok();
    if (token.kind == CToken::Kind::kName && IsReserved(token.text) && !token.Is("_Bool")) {
      return Ok();
    }
  }
  auto tokens = PreprocessC(*raw);
  if (!tokens.ok()) return Ok();
  CParser parser(std::move(*tokens));
  if (parser.ReadFile().ok()) (void)parser.Finish(entry);
  return parser.grammar_fault();
}

Result<CProgram> ParseC(std::string_view text, std::string_view entry) {
  TM_ASSIGN_OR_RETURN(const std::vector<CToken> raw, LexC(text));
  TM_ASSIGN_OR_RETURN(std::vector<CToken> tokens, PreprocessC(raw));
  CParser parser(std::move(tokens));
  TM_RETURN_IF_ERROR(parser.ReadFile());
  return parser.Finish(entry);
}

}  // namespace tidemill
