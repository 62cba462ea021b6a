#include <algorithm>

#include "prover/c_parser.h"

namespace tidemill {
namespace {

constexpr uint64_t kCellsMax = 1 << 16;

bool MentionsVariable(const CExpr& expr, uint32_t index) {
  if ((expr.kind == CExprKind::kVariable || expr.kind == CExprKind::kAddress) &&
      expr.index == index) {
    return true;
  }
  return std::any_of(expr.args.begin(), expr.args.end(),
                     [&](const CExprPtr& arg) { return MentionsVariable(*arg, index); });
}

}  // namespace

CParser::Declarator CParser::ReadDeclarator(const CType& base, bool abstract) {
  Declarator declarator;
  declarator.type = base;
  declarator.line = Look().line;
  bool is_pointer = Accept("*");
  if (is_pointer && !failed()) {
    if (base.is_pointer()) FailSubset("a pointer to a pointer");
    if (base.is_void()) FailSubset("a pointer to void");
    while (Accept("const") || Accept("restrict") || Accept("__restrict")) continue;
    if (StartsType(Look())) FailSubset("a pointer with " + Shown());
    if (Is("*")) FailSubset("a pointer to a pointer");
    declarator.type.kind = CType::Kind::kPointer;
  }
  const bool in_parentheses = !is_pointer && Is("(") && IsNext("*");
  if (in_parentheses) {
    Take();
    Take();
    is_pointer = true;
    while (Accept("const")) continue;
  }
  if (Look().kind == CToken::Kind::kName && !StartsType(Look())) {
    declarator.name = Take().text;
  } else if (Look().kind == CToken::Kind::kName && Find(Look().text) != nullptr && !abstract) {
    declarator.name = Take().text;  // shadows a type
  } else if (Look().kind == CToken::Kind::kName && !abstract) {
    FailSubset(Shown() + " as a name");
  } else if (!abstract) {
    Is("(") ? FailSubset("a declarator in parentheses")
            : FailNotC("expected a name, got " + Shown());
  }
  if (in_parentheses) Expect(")");
  if (Is("(")) {
    if (in_parentheses) FailSubset("a pointer to a function");
    ReadParameters(declarator);
    declarator.is_function = true;
  } else if (Is("[")) {
    if (is_pointer && !in_parentheses) FailSubset("an array of pointers");
    if (base.is_pointer() || base.is_void()) FailSubset("an array of " + TypeText(base));
    ReadArraySuffix(declarator);
    if (in_parentheses && declarator.open_array) FailSubset("a pointer to an open array");
    if (in_parentheses) declarator.type.kind = CType::Kind::kPointer;
  } else if (in_parentheses) {
    FailSubset("a declarator in parentheses");
  }
  const bool has_attribute = ReadAttribute();
  while (ReadAttribute()) continue;
  // gcc wants the attributes of a definition in front.
  if (has_attribute && declarator.is_function && Is("{")) FailSubset("an attribute here");
  if (Is("asm") || Is("__asm__") || Is("__asm")) FailSubset("a name in asm");
  return declarator;
}

void CParser::ReadArraySuffix(Declarator& declarator) {
  std::vector<uint32_t> dims;
  while (Accept("[") && !failed()) {
    while (Accept("const") || Accept("static") || Accept("restrict")) continue;
    if (Is("*") && IsNext("]")) return FailSubset("an array of variable length");
    int64_t length = 1;
    if (Is("]")) {
      if (!dims.empty()) FailNotC("only the first length of an array may be left out");
      declarator.open_array = true;
    } else {
      const CExprPtr expr = Value(ParseAssignment());
      if (failed()) return;
      if (!FoldSize(*expr, length)) return FailSubset("an array of variable length");
      if (length <= 0) return FailSubset("an array without elements");
    }
    Expect("]");
    dims.push_back(static_cast<uint32_t>(std::min<int64_t>(length, kCellsMax + 1)));
    if (dims.size() > 4) FailSubset("an array of more than four dimensions");
  }
  dims.insert(dims.end(), declarator.type.dims.begin(), declarator.type.dims.end());
  declarator.type.dims = std::move(dims);
  declarator.type.kind = CType::Kind::kArray;
  uint64_t cells = 1;
  for (const uint32_t dim : declarator.type.dims) {
    cells *= dim;
    if (cells > kCellsMax) return FailSubset("an array of more than 65536 elements");
  }
}

void CParser::ReadParameters(Declarator& declarator) {
  Expect("(");
  if (Accept(")")) return;
  if (Is("void") && IsNext(")")) {
    Take();
    Take();
    return;
  }
  if (!StartsType(Look()) && (IsNext(",") || IsNext(")"))) return ReadOldParameters(declarator);
  do {
    if (Is("...")) return FailSubset("a function of any number of arguments");
    const Specifiers specifiers = ReadSpecifiers();
    if (specifiers.storages > (specifiers.is_register ? 1 : 0) || specifiers.is_inline) {
      FailSubset("a parameter with a storage class");
    }
    Declarator parameter = ReadDeclarator(specifiers.type, true);
    if (parameter.is_function) FailSubset("a function as a parameter");
    if (parameter.type.is_void()) FailNotC("a parameter of type void");
    if (failed()) return;
    CVariable variable;
    variable.name = std::string(parameter.name);
    variable.type = Decayed(parameter.type);
    variable.is_register = specifiers.is_register;
    variable.is_const = specifiers.is_const && variable.type.is_int();
    declarator.parameters.push_back(std::move(variable));
    if (declarator.parameters.size() > 32) return FailSubset("more than 32 parameters");
  } while (Accept(","));
  Expect(")");
}

// int f(a, b) int a; short b; { .. }. A type that is not said is int.
void CParser::ReadOldParameters(Declarator& declarator) {
  do {
    if (Look().kind != CToken::Kind::kName) return FailSubset("a parameter without a name");
    CVariable variable;
    variable.name = std::string(Take().text);
    declarator.parameters.push_back(std::move(variable));
  } while (Accept(","));
  Expect(")");
  if (!Is("{") && !StartsType(Look())) return FailSubset("a parameter of an unknown type");
  while (!failed() && !Is("{")) {
    const Specifiers specifiers = ReadSpecifiers();
    if (specifiers.storages > 0 || specifiers.is_inline) {
      FailSubset("a parameter with a storage class");
    }
    do {
      Declarator said = ReadDeclarator(specifiers.type, false);
      if (failed()) return;
      const auto found = std::ranges::find(declarator.parameters, said.name, &CVariable::name);
      if (said.is_function || found == declarator.parameters.end()) {
        return FailSubset("this declaration of a parameter");
      }
      // Callers without a prototype pass what the default promotions make of a value.
      found->type = Decayed(said.type);
      if (!found->type.is_int() || found->type.base.bits < 32) {
        return FailSubset("a parameter of this type in an old definition");
      }
    } while (Accept(","));
    Expect(";");
  }
}

CType CParser::ReadTypeName() {
  const Specifiers specifiers = ReadSpecifiers();
  if (specifiers.storages > 0 || specifiers.is_inline) FailSubset("a type with a storage class");
  Declarator declarator = ReadDeclarator(specifiers.type, true);
  if (!declarator.name.empty()) FailNotC("a name in a type");
  if (declarator.is_function || declarator.open_array) FailSubset("this type");
  return declarator.type;
}

bool CParser::DeclaresNothing(const Specifiers& specifiers) {
  if (Is(";") && (specifiers.storages > 0 || specifiers.is_inline))
    FailSubset("an empty declaration");
  return Accept(";") || failed();
}

void CParser::ReadExternal() {
  if (Accept(";") || ReadStaticAssert()) return;
  const Specifiers specifiers = ReadSpecifiers();
  if (specifiers.is_register) FailSubset("register outside of a function");
  if (DeclaresNothing(specifiers)) return;
  do {
    Declarator declarator = ReadDeclarator(specifiers.type, false);
    if (failed()) return;
    if (specifiers.is_typedef) {
      if (declarator.is_function || declarator.open_array) return FailSubset("this typedef");
      Declare(declarator.name, {Symbol::Kind::kType, 0, 0, declarator.type});
    } else if (declarator.is_function) {
      const bool has_body = Is("{");
      DeclareFunction(specifiers, declarator, has_body);
      if (has_body) {
        Expect("{");
        return PassBody();
      }
    } else {
      if (specifiers.is_inline) FailSubset("an inline variable");
      DeclareStatic(specifiers, declarator);
    }
  } while (Accept(","));
  Expect(";");
}

// Where a name is seen from. Other files see neither a static function nor one that is only inline;
// of the second kind a compiler may not even make code for this file.
void CParser::NoteLinkage(const Specifiers& specifiers, bool is_new, FunctionState& state) {
  if (specifiers.is_inline && !specifiers.is_static) FailSubset("inline without static");
  if (specifiers.is_static && !is_new && !state.is_static) {
    FailNotC("a function that is static only from here on");
  }
  state.is_static = state.is_static || specifiers.is_static;
}

void CParser::DeclareFunction(const Specifiers& specifiers, Declarator& declarator, bool has_body) {
  const Symbol* known = scopes_.size() == 1 ? Find(declarator.name) : nullptr;
  const bool is_new = known == nullptr;
  if (scopes_.size() > 1) return FailSubset("a function declared in a function");
  if (declarator.type.is_pointer()) return FailSubset("a function that returns a pointer");
  if (specifiers.is_const) return FailSubset("a function with a constant result");
  // The library's own may be declared, and memset may do without.
  if (has_body && IsLibraryName(declarator.name)) {
    return FailSubset("a function with the name of one of the library's");
  }
  if (is_new) {
    if (program_.functions.size() >= 1000) return FailSubset("more than 1000 functions");
    program_.functions.emplace_back();
    states_.emplace_back();
    Declare(declarator.name,
            {Symbol::Kind::kFunction, static_cast<uint32_t>(program_.functions.size() - 1), 0, {}});
    known = Find(declarator.name);
  } else if (known->kind != Symbol::Kind::kFunction) {
    return FailNotC("\"" + std::string(declarator.name) + "\" is declared twice");
  }
  CFunction& function = program_.functions[known->index];
  FunctionState& state = states_[known->index];
  NoteLinkage(specifiers, is_new, state);
  if (!function.name.empty() && !declarator.parameters.empty() && function.parameters > 0) {
    bool same =
        function.parameters == declarator.parameters.size() && function.result == declarator.type;
    for (size_t i = 0; same && i < declarator.parameters.size(); ++i) {
      same = function.variables[i].type == declarator.parameters[i].type;
    }
    if (!same) return FailNotC("\"" + function.name + "\" is declared in two ways");
  }
  if (has_body && state.defined) {
    return FailNotC("\"" + function.name + "\" is defined twice");
  }
  if (state.defined) return;
  function.name = std::string(declarator.name);
  function.result = declarator.type;
  function.line = declarator.line;
  function.parameters = static_cast<uint32_t>(declarator.parameters.size());
  function.variables = std::move(declarator.parameters);
  state.defined = has_body;
  state.body = at_ + 1;
}

// A variable of the file, or static in a function.
void CParser::DeclareStatic(const Specifiers& specifiers, Declarator& declarator) {
  if (specifiers.is_extern) return FailSubset("a variable of another file");
  if (scopes_.size() == 1 && IsLibraryName(declarator.name)) {
    return FailSubset("a variable with the name of one of the library's");
  }
  if (declarator.type.is_pointer()) return FailSubset("a static pointer");
  if (declarator.type.is_void()) return FailNotC("a variable of type void");
  CVariable variable;
  variable.name = std::string(declarator.name);
  variable.is_static = true;
  variable.is_const = specifiers.is_const;
  variable.address_taken = true;
  InitialCells initial;
  if (Accept("=")) {
    CType type = declarator.type;
    if (declarator.open_array) type.dims[0] = 0;
    initial = ReadInitial(type);
    if (declarator.open_array) declarator.type.dims[0] = static_cast<uint32_t>(initial.length);
  } else if (declarator.open_array) {
    return FailSubset("an array without a length");
  }
  if (failed()) return;
  variable.type = declarator.type;
  variable.initial.assign(CellsOf(variable.type), 0);
  for (size_t i = 0; i < initial.cells.size(); ++i) {
    int64_t value = 0;
    if (!FoldC(*initial.exprs[i], value)) return FailSubset("a static value that is not constant");
    variable.initial[initial.cells[i]] = value;
  }
  Declare(declarator.name, {Symbol::Kind::kVariable, AddVariable(std::move(variable)), 0, {}});
}

void CParser::DeclareLocal(const Specifiers& specifiers, Declarator& declarator,
                           std::vector<CStatementPtr>& out) {
  if (declarator.type.is_void()) return FailNotC("a variable of type void");
  if (specifiers.is_inline) return FailSubset("an inline variable");
  if (specifiers.is_register && !declarator.type.is_int()) return FailSubset("a register array");
  CVariable variable;
  variable.name = std::string(declarator.name);
  variable.type = declarator.type;
  variable.is_const = specifiers.is_const && !declarator.type.is_pointer();
  variable.is_register = specifiers.is_register;
  variable.scope_depth = static_cast<uint16_t>(scopes_.size());
  const bool initialised = Is("=");
  variable.may_be_unset = !initialised || switches_ > 0;
  if (declarator.open_array && !initialised) return FailNotC("an array without a length");
  const uint32_t index = AddVariable(std::move(variable));
  Declare(declarator.name, {Symbol::Kind::kVariable, index, 0, {}});
  if (failed()) return;
  CStatementPtr statement = NewStatement(CStatementKind::kDeclare);
  statement->index = index;
  statement->initialised = initialised;
  if (Accept("=")) {
    CType type = declarator.type;
    if (declarator.open_array) type.dims[0] = 0;
    InitialCells initial = ReadInitial(type);
    if (failed()) return;
    if (declarator.open_array) {
      Variable(index).type.dims[0] = static_cast<uint32_t>(initial.length);
    }
    for (const CExprPtr& expr : initial.exprs) {
      if (MentionsVariable(*expr, index)) return FailSubset("a variable in its own initial value");
    }
    if (type.is_pointer() && PointerDepth(*initial.exprs[0]) > Variable(index).scope_depth) {
      return FailSubset("a pointer that outlives what it points to");
    }
    int64_t value = 0;
    if (Variable(index).is_const && type.is_int() && FoldC(*initial.exprs[0], value)) {
      Variable(index).initial = {value};
    }
    statement->cells = std::move(initial.cells);
    statement->exprs = std::move(initial.exprs);
  }
  out.push_back(std::move(statement));
}

}  // namespace tidemill
