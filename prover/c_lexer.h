// Text of a C file -> tokens, with macros expanded. Standard headers are taken as read: their names
// are known to the parser. Bounded in size, in depth of macros and in the number of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "prover/c_type.h"
#include "prover/prover.h"

namespace tidemill {

inline constexpr size_t kCTokensMax = 200'000;

struct CToken {
  enum class Kind : uint8_t { kEnd, kName, kNumber, kFloat, kString, kPunctuator };
  Kind kind = Kind::kEnd;
  bool starts_line = false;  // the first of its line
  bool follows_space = false;
  bool painted = false;  // the name of a macro inside its own expansion: stays as it is
  uint32_t line = 0;
  CIntType type = kCInt;  // of a number
  int64_t value = 0;
  std::string_view text;  // points into the text given to LexC

  bool Is(std::string_view word) const {
    return text == word && (kind == Kind::kPunctuator || kind == Kind::kName);
  }
};

// Tokens up to and with one of Kind::kEnd; they point into `text`. kInvalid: this is no C;
// kUnavailable: something this front end does not know. Both name the line.
Result<std::vector<CToken>> LexC(std::string_view text);

// The characters of a string. kUnavailable: one of them is beyond ASCII, or an unknown escape.
Result<std::string> CharactersOf(const CToken& token);

// Directives carried out and macros expanded.
Result<std::vector<CToken>> PreprocessC(const std::vector<CToken>& tokens);

// A type, a constant or a builtin that standard headers or the compiler say.
bool IsHeaderName(std::string_view name);

// The two failures every part of the front end has, with their line in front.
Status NotC(uint32_t line, std::string_view what);
Status NotInSubset(uint32_t line, std::string_view what);

}  // namespace tidemill
