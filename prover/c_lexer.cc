#include "prover/c_lexer.h"

#include <array>
#include <cctype>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr std::array<std::string_view, 24> kLongPunctuators = {
    "<<=", ">>=", "...", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++",
    "--",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "->", "##", "::"};
constexpr std::string_view kShortPunctuators = "+-*/%&|^~!<>=?:;,.(){}[]#";
// Other spellings of brackets and of "#".
constexpr std::array<std::string_view, 5> kDigraphs = {"<%", "%>", "<:", ":>", "%:"};

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r';
}

// Text that compilers read in different ways, anywhere: nothing; gcc takes a zero byte for a
// blank, clang a lone carriage return for a line's end, and only some of them trigraphs.
std::string_view OddCharacters(std::string_view text) {
  constexpr std::string_view kTrigraphs = "=/'()!<>-";
  if (text.find('\0') != std::string_view::npos) return "a zero byte";
  for (size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1)) {
    if (text.substr(at + 1, 1) != "\n") return "a carriage return alone";
  }
  for (size_t at = text.find("??"); at != std::string_view::npos; at = text.find("??", at + 1)) {
    if (at + 2 < text.size() && kTrigraphs.find(text[at + 2]) != std::string_view::npos) {
      return "a trigraph";
    }
  }
  return "";
}

bool StartsName(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool ContinuesName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Walks over the text once.
class CLexer {
 public:
  explicit CLexer(std::string_view text, uint32_t line = 1) : text_(text), line_(line) {}

  // The text is one string in its quotes.
  Result<std::string> Characters() {
    std::string characters;
    for (++at_; at_ + 1 < text_.size();) {
      int value = static_cast<signed char>(Look());
      if (value < 0) return NotInSubset(line_, "a character beyond ASCII");
      ++at_;
      if (value == '\\') TM_RETURN_IF_ERROR(ReadEscape(value));
      characters += static_cast<char>(value);
    }
    return characters;
  }

  Result<std::vector<CToken>> Run() {
    while (true) {
      TM_RETURN_IF_ERROR(SkipSpace());
      CToken token;
      token.line = line_;
      token.starts_line = starts_line_;
      token.follows_space = spaced_;
      starts_line_ = spaced_ = false;
      if (at_ >= text_.size()) {
        token.starts_line = true;
        tokens_.push_back(token);
        return std::move(tokens_);
      }
      if (tokens_.size() >= kCTokensMax) return NotInSubset(line_, "too many tokens");
      const size_t start = at_;
      TM_RETURN_IF_ERROR(Lex(token));
      token.text = text_.substr(start, at_ - start);
      tokens_.push_back(token);
    }
  }

 private:
  char Look(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // The length of a line's end with a backslash in front, which joins two lines, 0 if there is
  // none. Blanks between the two do not count, to gcc and clang.
  size_t Continuation(size_t ahead = 0) const {
    if (Look(ahead) != '\\') return 0;
    size_t length = 1;
    while (IsBlank(Look(ahead + length))) ++length;
    return Look(ahead + length) == '\n' ? length + 1 : 0;
  }

  // Between two words. Lines are joined before words are told apart, so without a blank on either
  // side it may be the middle of one.
  Status SkipContinuation(size_t length) {
    const char before = at_ > 0 ? text_[at_ - 1] : '\n';
    const bool apart = before == '\n' || IsBlank(before) || IsBlank(Look(length)) ||
                       Look(length) == '\n' || at_ + length >= text_.size();
    if (!apart) return NotInSubset(line_, "a word that may go on in the next line");
    ++line_;
    at_ += length;
    return Ok();
  }

  Status SkipLineComment() {
    for (; at_ < text_.size() && Look() != '\n'; ++at_) {
      if (Continuation() > 0) return NotInSubset(line_, "a continued comment");
    }
    return Ok();
  }

  Status SkipBlockComment() {
    const size_t end = text_.find("*/", at_ + 2);
    if (end == std::string_view::npos) return NotC(line_, "a comment that does not end");
    for (; at_ < end + 2; ++at_) {
      line_ += Look() == '\n';
      if (Look() == '*' && Continuation(1) > 0) return NotInSubset(line_, "a continued comment");
    }
    return Ok();
  }

  // White space, comments and line ends with a backslash in front.
  Status SkipSpace() {
    while (at_ < text_.size()) {
      const char c = Look();
      if (c == '\n') {
        ++line_;
        starts_line_ = true;
        ++at_;
      } else if (const size_t length = Continuation(); length > 0) {
        TM_RETURN_IF_ERROR(SkipContinuation(length));
      } else if (IsBlank(c)) {
        ++at_;
      } else if (c == '/' && Look(1) == '/') {
        TM_RETURN_IF_ERROR(SkipLineComment());
      } else if (c == '/' && Look(1) == '*') {
        TM_RETURN_IF_ERROR(SkipBlockComment());
      } else {
        return Ok();
      }
      spaced_ = true;
    }
    return Ok();
  }

  Status Lex(CToken& token) {
    const char c = Look();
    if (StartsName(c)) {
      token.kind = CToken::Kind::kName;
      while (ContinuesName(Look())) ++at_;
      // L'x', u8"x": wide characters.
      if (Look() == '\'' || Look() == '"') return NotInSubset(line_, "a prefixed literal");
      return Ok();
    }
    if (DigitOf(c) < 10 || (c == '.' && DigitOf(Look(1)) < 10)) return LexNumber(token);
    if (c == '\'') return LexCharacter(token);
    if (c == '"') return LexString(token);
    token.kind = CToken::Kind::kPunctuator;
    for (const std::string_view digraph : kDigraphs) {
      if (text_.substr(at_, 2) == digraph) return NotInSubset(line_, "a digraph");
    }
    for (const std::string_view punctuator : kLongPunctuators) {
      if (text_.substr(at_, punctuator.size()) == punctuator) {
        at_ += punctuator.size();
        return Ok();
      }
    }
    // Compilers take them in names.
    if (c == '$' || static_cast<signed char>(c) < 0 || (c == '\\' && (Look(1) | 32) == 'u')) {
      return NotInSubset(line_, "a name beyond ASCII");
    }
    if (kShortPunctuators.find(c) == std::string_view::npos) {
      return NotC(line_, "unexpected character \"" + ToUtf8(text_.substr(at_, 1)) + "\"");
    }
    ++at_;
    return Ok();
  }

  // A preprocessing number first, so that "12abc" is one wrong word.
  Status LexNumber(CToken& token) {
    const size_t start = at_;
    while (ContinuesName(Look()) || Look() == '.' ||
           ((Look() == '+' || Look() == '-') && at_ > start && IsExponent(start))) {
      ++at_;
    }
    if (Look() == '\'') return NotInSubset(line_, "a number with separators");
    const std::string_view word = text_.substr(start, at_ - start);
    const bool hexadecimal = word.size() > 1 && word[0] == '0' && (word[1] | 32) == 'x';
    if (word.find_first_of(hexadecimal ? ".pP" : ".eEpP") != std::string_view::npos) {
      token.kind = CToken::Kind::kFloat;
      return Ok();
    }
    token.kind = CToken::Kind::kNumber;
    return ReadInteger(word, token);
  }

  bool IsExponent(size_t start) const {
    const bool hexadecimal =
        text_[start] == '0' && at_ > start + 1 && (text_[start + 1] | 32) == 'x';
    return (text_[at_ - 1] | 32) == (hexadecimal ? 'p' : 'e');
  }

  Status ReadInteger(std::string_view word, CToken& token) const {
    uint64_t base = 10;
    size_t at = 0;
    // Some compilers take it for zero.
    if (word == "0b" || word == "0B" || word == "0x" || word == "0X")
      return NotInSubset(line_, "a number without digits");
    if (word.size() > 2 && word[0] == '0' && (word[1] | 32) == 'x') {
      base = 16;
      at = 2;
    } else if (word.size() > 2 && word[0] == '0' && (word[1] | 32) == 'b') {
      base = 2;
      at = 2;
    } else if (word[0] == '0') {
      base = 8;
    }
    uint64_t value = 0;
    for (; at < word.size() && static_cast<uint64_t>(DigitOf(word[at])) < base; ++at) {
      if (__builtin_mul_overflow(value, base, &value) ||
          __builtin_add_overflow(value, static_cast<uint64_t>(DigitOf(word[at])), &value)) {
        return NotInSubset(line_, "a constant larger than 64 bits");
      }
    }
    bool is_unsigned = false;
    int longs = 0;
    for (; at < word.size(); ++at) {
      if ((word[at] | 32) == 'u' && !is_unsigned) {
        is_unsigned = true;
      } else if ((word[at] | 32) == 'l' && longs == 0) {
        longs = 1;
        if (at + 1 < word.size() && word[at + 1] == word[at]) ++at;
      } else if (word.find_first_not_of("uUlLiIjJ", at) == std::string_view::npos) {
        return NotInSubset(line_, "\"" + std::string(word) + "\"");
      } else {
        return NotC(line_, "\"" + std::string(word) + "\" is no number");
      }
    }
    return TypeInteger(value, base == 10, is_unsigned, longs > 0, token);
  }

  Status TypeInteger(uint64_t value, bool decimal, bool is_unsigned, bool is_long,
                     CToken& token) const {
    token.value = static_cast<int64_t>(value);
    for (const CIntType type : {kCInt, kCUnsigned, kCLong, kCUnsignedLong}) {
      if (is_long && type.bits < 64) continue;
      if (is_unsigned && type.is_signed) continue;
      if (decimal && !is_unsigned && !type.is_signed) continue;
      if (value > static_cast<uint64_t>(HighestOf(type))) continue;
      token.type = type;
      return Ok();
    }
    return NotInSubset(line_, "a decimal constant larger than long");
  }

  Status LexCharacter(CToken& token) {
    token.kind = CToken::Kind::kNumber;
    ++at_;
    if (Look() == '\'' || Look() == '\n' || Look() == '\0') {
      return NotC(line_, "an empty character constant");
    }
    int value = static_cast<signed char>(Look());
    if (value < 0) return NotInSubset(line_, "a character beyond ASCII");
    if (Look() == '\\') {
      ++at_;
      TM_RETURN_IF_ERROR(ReadEscape(value));
    } else {
      ++at_;
    }
    if (Look() != '\'') {
      const size_t end = text_.find_first_of("'\n", at_);
      if (end == std::string_view::npos || text_[end] == '\n') {
        return NotC(line_, "a character constant that does not end");
      }
      return NotInSubset(line_, "a constant of several characters");
    }
    ++at_;
    token.value = static_cast<signed char>(value);
    return Ok();
  }

  // After the backslash.
  Status ReadEscape(int& value) {
    constexpr std::string_view kNames = "ntr\\'\"?abfv";
    constexpr std::string_view kValues = "\n\t\r\\'\"?\a\b\f\v";
    if (DigitOf(Look()) < 8) {
      value = 0;
      for (int i = 0; i < 3 && DigitOf(Look()) < 8; ++i) value = value * 8 + DigitOf(text_[at_++]);
    } else if (Look() == 'x') {
      ++at_;
      if (DigitOf(Look()) > 15) return NotC(line_, "\\x without digits");
      value = 0;
      while (DigitOf(Look()) < 16 && value < 256) value = value * 16 + DigitOf(text_[at_++]);
    } else {
      const size_t found = kNames.find(Look());
      if (found == std::string_view::npos) return NotInSubset(line_, "an unknown escape");
      value = kValues[found];
      ++at_;
    }
    if (value > 255) return NotInSubset(line_, "an escape larger than a character");
    return Ok();
  }

  Status LexString(CToken& token) {
    token.kind = CToken::Kind::kString;
    for (++at_; Look() != '"'; ++at_) {
      if (Look() == '\n' || at_ >= text_.size()) return NotC(line_, "a string that does not end");
      if (Continuation() > 0) return NotInSubset(line_, "a continued string");
      if (Look() == '\\') ++at_;
    }
    ++at_;
    return Ok();
  }

  const std::string_view text_;
  size_t at_ = 0;
  uint32_t line_;
  bool starts_line_ = true;
  bool spaced_ = false;
  std::vector<CToken> tokens_;
};

}  // namespace

Result<std::string> CharactersOf(const CToken& token) {
  return CLexer(token.text, token.line).Characters();
}

Status NotC(uint32_t line, std::string_view what) {
  return Invalid("line " + std::to_string(line) + ": " + std::string(what));
}

Status NotInSubset(uint32_t line, std::string_view what) {
  return Unavailable("line " + std::to_string(line) + ": " + std::string(what) +
                     " (outside the subset of C that can be proved)");
}

Result<std::vector<CToken>> LexC(std::string_view text) {
  if (text.size() > kCTextMax) return NotInSubset(1, "a text of more than 256 KiB");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (const std::string_view odd = OddCharacters(text); !odd.empty()) return NotInSubset(1, odd);
  return CLexer(text).Run();
}

}  // namespace tidemill
