#include <algorithm>

#include "reward/verifiers/c_parser.h"

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

// "unsigned long int" as words that were counted.
struct BaseWords {
  int chars = 0, shorts = 0, ints = 0, longs = 0, is_signed = 0, is_unsigned = 0, bools = 0,
      voids = 0;

  int* Count(std::string_view word) {
    if (word == "char") return &chars;
    if (word == "short") return &shorts;
    if (word == "int") return &ints;
    if (word == "long") return &longs;
    if (word == "signed" || word == "__signed__") return &is_signed;
    if (word == "unsigned") return &is_unsigned;
    if (word == "_Bool") return &bools;
    if (word == "void") return &voids;
    return nullptr;
  }
  int Sum() const {
    return chars + shorts + ints + longs + is_signed + is_unsigned + bools + voids;
  }
  bool Valid() const {
    if (chars > 1 || shorts > 1 || ints > 1 || longs > 2 || is_signed + is_unsigned > 1)
      return false;
    if (bools + voids > 0) return Sum() == 1;
    return chars + shorts + (longs > 0 ? 1 : 0) <= 1 && (chars == 0 || ints == 0);
  }
  CType Type() const {
    if (voids > 0) return {CType::Kind::kVoid, kCInt, {}};
    if (bools > 0) return IntType(kCBool);
    const uint8_t bits = chars > 0 ? 8 : shorts > 0 ? 16 : longs > 0 ? 64 : 32;
    return IntType({bits, is_unsigned == 0, false});
  }
};

}  // namespace

// Words that say where something lives and how it may be used.
bool CParser::ReadStorage(Specifiers& specifiers) {
  if (Accept("typedef")) return specifiers.is_typedef = true;
  if (Accept("static")) return specifiers.is_static = true;
  if (Accept("const") || Accept("__const")) return specifiers.is_const = true;
  if (Accept("extern")) return specifiers.is_extern = true;
  if (Is("__attribute__") && IsNext("(")) {
    // How to compile something, not what it means.
    Take();
    int depth = 0;
    do {
      if (Is("(")) ++depth;
      if (Is(")")) --depth;
      if (Look().kind == CToken::Kind::kEnd) return false;
      Take();
    } while (depth > 0);
    return true;
  }
  return Accept("inline") || Accept("__inline") || Accept("__inline__") || Accept("register") ||
         Accept("auto") || Accept("_Noreturn") || Accept("__extension__") || Accept("restrict");
}

CParser::Specifiers CParser::ReadSpecifiers() {
  Specifiers specifiers;
  BaseWords words;
  bool named = false;
  while (!failed()) {
    if (ReadStorage(specifiers)) continue;
    if (int* count = Look().kind == CToken::Kind::kName ? words.Count(Look().text) : nullptr;
        count != nullptr && !named) {
      ++*count;
      Take();
      continue;
    }
    if (!StartsType(Look()) || named || words.Sum() > 0) break;
    named = true;
    const Symbol* symbol = Find(Look().text);
    CIntType header;
    if (Is("enum")) {
      ReadEnum(specifiers);
    } else if (symbol != nullptr && symbol->kind == Symbol::Kind::kType) {
      specifiers.type = symbol->type;
      Take();
    } else if (FindHeaderType(Look().text, header)) {
      specifiers.type = IntType(header);
      Take();
    } else {
      FailSubset("\"" + std::string(Look().text) + "\"");
    }
  }
  if (named) return specifiers;
  if (words.Sum() == 0) {
    ReadUnknownType();
  } else if (!words.Valid()) {
    StartsType(Look()) ? FailSubset(Shown()) : FailNotC("no such type");
  }
  specifiers.type = words.Type();
  // "long double" and the like come here with a word left.
  if (!failed() && StartsType(Look())) FailSubset(Shown());
  return specifiers;
}

void CParser::ReadUnknownType() {
  if (Is("main") && IsNext("(")) return FailSubset("a function without a type");
  if (!passed_over_.ok() && Look().kind == CToken::Kind::kName) return Keep(passed_over_);
  FailNotC("expected a declaration, got " + Shown());
}

void CParser::ReadEnum(Specifiers& specifiers) {
  Take();
  std::string_view tag;
  if (Look().kind == CToken::Kind::kName) tag = Take().text;
  specifiers.type = IntType(kCUnsigned);
  if (!Accept("{")) {
    const std::string name = "enum " + std::string(tag);
    const auto found = enums_.find(name);
    if (tag.empty() || found == enums_.end()) return FailNotC("an enum without a list");
    specifiers.type = found->second;
    return;
  }
  int64_t next = 0;
  while (!failed() && !Is("}")) {
    const CToken name = Take();
    if (name.kind != CToken::Kind::kName) return FailNotC("an enum lists names");
    if (Accept("=") && !ConstantValue(next)) return;
    if (next < LowestOf(kCInt) || next > HighestOf(kCInt)) return FailSubset("a large enum value");
    if (next < 0) specifiers.type = IntType(kCInt);
    Declare(name.text, {Symbol::Kind::kConstant, 0, next, IntType(kCInt)});
    ++next;
    if (!Accept(",")) break;
  }
  Expect("}");
  if (!tag.empty()) enums_.insert_or_assign("enum " + std::string(tag), specifiers.type);
}

CParser::Declarator CParser::ReadDeclarator(const CType& base, bool abstract) {
  Declarator declarator;
  declarator.type = base;
  declarator.line = Look().line;
  bool is_pointer = Accept("*");
  if (is_pointer && !failed()) {
    if (base.is_pointer()) FailSubset("a pointer to a pointer");
    if (base.is_void()) FailSubset("a pointer to void");
    while (Accept("const") || Accept("restrict") || Accept("__restrict")) continue;
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
  return declarator;
}

void CParser::ReadArraySuffix(Declarator& declarator) {
  std::vector<uint32_t> dims;
  while (Accept("[") && !failed()) {
    while (Accept("const") || Accept("static")) continue;
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
    Declarator parameter = ReadDeclarator(specifiers.type, true);
    if (parameter.is_function) FailSubset("a function as a parameter");
    if (parameter.type.is_void()) FailNotC("a parameter of type void");
    if (failed()) return;
    CVariable variable;
    variable.name = std::string(parameter.name);
    variable.type = Decayed(parameter.type);
    variable.is_parameter = true;
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
    variable.is_parameter = true;
    declarator.parameters.push_back(std::move(variable));
  } while (Accept(","));
  Expect(")");
  if (!Is("{") && !StartsType(Look())) return FailSubset("a parameter of an unknown type");
  while (!failed() && !Is("{")) {
    const Specifiers specifiers = ReadSpecifiers();
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
  Declarator declarator = ReadDeclarator(specifiers.type, true);
  if (!declarator.name.empty()) FailNotC("a name in a type");
  if (declarator.is_function || declarator.open_array) FailSubset("this type");
  return declarator.type;
}

void CParser::ReadExternal() {
  if (Accept(";")) return;
  const Specifiers specifiers = ReadSpecifiers();
  if (Accept(";") || failed()) return;
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
      DeclareStatic(specifiers, declarator);
    }
  } while (Accept(","));
  Expect(";");
}

void CParser::DeclareFunction(const Specifiers&, Declarator& declarator, bool has_body) {
  const Symbol* known = scopes_.size() == 1 ? Find(declarator.name) : nullptr;
  if (scopes_.size() > 1) return FailSubset("a function declared in a function");
  if (declarator.type.is_pointer()) return FailSubset("a function that returns a pointer");
  if (known == nullptr) {
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
  CVariable variable;
  variable.name = std::string(declarator.name);
  variable.type = declarator.type;
  variable.is_const = specifiers.is_const && !declarator.type.is_pointer();
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
