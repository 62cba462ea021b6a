// The words in front of a declarator: storage, attributes, the type.
#include <algorithm>
#include <array>

#include "core/text.h"
#include "prover/c_parser.h"

namespace tidemill {
namespace {

// Say how to compile or to warn, not what is meant, and compilers take them on any declaration,
// alone and together: clang refuses hot beside cold.
constexpr std::array<std::string_view, 6> kHarmlessAttributes = {
    "unused", "used", "noinline", "nothrow", "warn_unused_result", "deprecated"};

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
  const auto storage = [&](std::string_view word, bool& said) {
    if (!Accept(word)) return false;
    if (++specifiers.storages > 1) FailSubset("two storage classes");
    return said = true;
  };
  if (storage("typedef", specifiers.is_typedef) || storage("static", specifiers.is_static) ||
      storage("extern", specifiers.is_extern) || storage("register", specifiers.is_register)) {
    return true;
  }
  if (Accept("const") || Accept("__const")) return specifiers.is_const = true;
  if (Accept("inline") || Accept("__inline") || Accept("__inline__")) {
    return specifiers.is_inline = true;
  }
  // gcc takes it in front of everything else alone.
  if (Is("__extension__")) FailSubset("__extension__");
  return ReadAttribute();
}

// __attribute__((..)). Those that change what something means, or whether a compiler takes it, are
// outside the subset, and so is every one that is not known here.
bool CParser::ReadAttribute() {
  if (!Is("__attribute__") && !Is("__attribute")) return false;
  Take();
  Expect("(");
  Expect("(");
  while (!failed() && !Is(")")) {
    std::string_view name = Take().text;
    if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) {
      name = name.substr(2, name.size() - 4);
    }
    const bool known = std::ranges::find(kHarmlessAttributes, name) != kHarmlessAttributes.end();
    if (!known || Is("(")) FailSubset("the attribute \"" + Beginning(name, 40) + "\"");
    if (!Accept(",")) break;
  }
  Expect(")");
  Expect(")");
  return !failed();
}

// _Static_assert(..). What it says can be false to a compiler that knows more.
bool CParser::ReadStaticAssert() {
  if (!Is("_Static_assert") && !Is("static_assert")) return false;
  Take();
  Expect("(");
  int64_t value = 0;
  const CExprPtr expr = Integer(ParseChoice());
  if (failed()) return false;
  if (!FoldC(*expr, value) || value == 0) FailSubset("a static assertion that does not hold");
  if (Accept(",")) {
    if (Look().kind != CToken::Kind::kString) FailSubset("this static assertion");
    Take();
  }
  Expect(")");
  Expect(";");
  return !failed();
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
  // asm, [[..]] and whatever else compilers have of their own.
  if (IsReserved(Look().text) || Is("asm") || Is("[")) return FailSubset(Shown());
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

}  // namespace tidemill
