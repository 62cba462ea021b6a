#include "conversation/jinja/lexer.h"

#include <cctype>
#include <optional>
#include <utility>

#include "conversation/jinja/text_writer.h"

namespace tidemill {
namespace {

constexpr size_t kTokensMax = 1'000'000;

bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsNamePart(char c) {
  return IsNameStart(c) || IsDigit(c);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<JinjaToken> Run() {
    while (at_ < source_.size()) LexData();
    Add(JinjaToken::Kind::kEnd, "", at_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(std::string message, size_t at) const {
    throw JinjaSyntaxError{std::move(message), at};
  }
  bool Has(std::string_view text, size_t at) const { return source_.substr(at).starts_with(text); }
  void Add(JinjaToken::Kind kind, std::string text, size_t begin) {
    if (tokens_.size() >= kTokensMax) Fail("the template has too many tokens", begin);
    tokens_.push_back({kind, std::move(text), begin, at_});
  }

  // Where the next tag opens; the size where there is none.
  size_t NextTag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string_view::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          std::string_view("{%#").find(source_[at + 1]) != std::string_view::npos) {
        return at;
      }
    }
    return source_.size();
  }

  // The data from `begin` to a tag at `end`, trimmed as the tag asks.
  std::string_view TrimmedData(size_t begin, size_t end, char tag, char sign) const {
    std::string_view data = source_.substr(begin, end - begin);
    if (sign == '-') return data.substr(0, StripSpan(data, false, true, nullptr).end);
    if (sign == '+' || tag == '{') return data;
    const size_t line = data.rfind('\n') + 1;  // 0 where there is none
    if (line == 0 && !line_starting_) return data;
    const std::string_view rest = data.substr(line);
    return StripSpan(rest, true, false, nullptr).begin == rest.size() ? data.substr(0, line) : data;
  }

  void LexData() {
    const size_t begin = at_;
    const size_t tag = NextTag(begin);
    at_ = tag;
    if (tag == source_.size()) {
      Add(JinjaToken::Kind::kText, std::string(source_.substr(begin)), begin);
      return;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const bool signed_tag = sign == '-' || (sign == '+' && kind != '{');
    const std::string_view data = TrimmedData(begin, tag, kind, signed_tag ? sign : ' ');
    if (!data.empty()) Add(JinjaToken::Kind::kText, std::string(data), begin);
    at_ = tag + 2 + (signed_tag ? 1 : 0);
    if (kind == '#') {
      LexComment(tag);
    } else if (kind == '%' && !LexRaw(tag)) {
      Add(JinjaToken::Kind::kBlockBegin, "{%", tag);
      LexExpression("%}", tag);
    } else if (kind == '{') {
      Add(JinjaToken::Kind::kPrintBegin, "{{", tag);
      LexExpression("}}", tag);
    }
    line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  // Moves over a tag's end at `at_` if there is one: "-%}" with the white space behind it, "+%}",
  // or "%}" with one line end.
  bool SkipTagEnd(std::string_view close) {
    const bool minus = Has("-", at_) && Has(close, at_ + 1);
    const bool plus = close != "}}" && Has("+", at_) && Has(close, at_ + 1);
    if (!minus && !plus && !Has(close, at_)) return false;
    at_ += close.size() + (minus || plus ? 1 : 0);
    if (minus) {
      at_ += StripSpan(source_.substr(at_), true, false, nullptr).begin;
    } else if (!plus && close != "}}" && Has("\n", at_)) {
      ++at_;
    }
    return true;
  }

  void LexComment(size_t tag) {
    while (at_ < source_.size()) {
      if (SkipTagEnd("#}")) return;
      ++at_;
    }
    Fail("a comment has no end (\"#}\")", tag);
  }

  void SkipSpace() { at_ += StripSpan(source_.substr(at_), true, false, nullptr).begin; }

  // {% raw %} .. {% endraw %}: what lies between is data. False: another tag.
  bool LexRaw(size_t tag) {
    const size_t before = at_;
    SkipSpace();
    if (!Has("raw", at_) || (at_ + 3 < source_.size() && IsNamePart(source_[at_ + 3]))) {
      at_ = before;
      return false;
    }
    at_ += 3;
    SkipSpace();
    if (!SkipTagEnd("%}")) {
      at_ = before;
      return false;
    }
    const size_t begin = at_;
    for (size_t end = source_.find("{%", begin); end != std::string_view::npos;
         end = source_.find("{%", end + 1)) {
      at_ = end + 2;
      const char sign = at_ < source_.size() ? source_[at_] : ' ';
      if (sign == '-' || sign == '+') ++at_;
      SkipSpace();
      if (!Has("endraw", at_)) continue;
      at_ += 6;
      SkipSpace();
      if (!SkipTagEnd("%}")) continue;
      line_starting_ = begin > 0 && source_[begin - 1] == '\n';
      const std::string_view data = TrimmedData(begin, end, '%', sign);
      Add(JinjaToken::Kind::kText, std::string(data), begin);
      return true;
    }
    Fail("a raw block has no end", tag);
  }

  void LexExpression(std::string_view close, size_t tag) {
    std::string open;  // brackets not closed yet
    while (true) {
      SkipSpace();
      if (at_ >= source_.size()) break;
      const size_t begin = at_;
      if (open.empty() && SkipTagEnd(close)) {
        Add(close == "}}" ? JinjaToken::Kind::kPrintEnd : JinjaToken::Kind::kBlockEnd,
            std::string(close), begin);
        return;
      }
      const char c = source_[at_];
      if (c == '\'' || c == '"') {
        LexString(c);
      } else if (IsDigit(c)) {
        LexNumber();
      } else if (IsNameStart(c)) {
        while (at_ < source_.size() && IsNamePart(source_[at_])) ++at_;
        Add(JinjaToken::Kind::kName, std::string(source_.substr(begin, at_ - begin)), begin);
      } else {
        LexOperator(open);
      }
    }
    Fail("a tag has no end (\"" + std::string(close) + "\")", tag);
  }

  void LexOperator(std::string& open) {
    const size_t begin = at_;
    size_t length = 1;
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (Has(two, at_)) length = 2;
    }
    const std::string_view text = source_.substr(at_, length);
    if (length == 1 &&
        std::string_view("+-/*%~[](){}><=.:|,;").find(text[0]) == std::string_view::npos) {
      Fail("unexpected character", begin);
    }
    const size_t closing = std::string_view(")]}").find(text[0]);
    if (std::string_view("([{").find(text[0]) != std::string_view::npos) {
      open += text[0] == '(' ? ')' : text[0] == '[' ? ']' : '}';
    } else if (closing != std::string_view::npos) {
      if (open.empty() || open.back() != text[0]) {
        Fail("unexpected \"" + std::string(text) + "\"", begin);
      }
      open.pop_back();
    }
    at_ += length;
    Add(JinjaToken::Kind::kOperator, std::string(text), begin);
  }

  size_t SkipDigits(size_t at, int base) const {
    while (at < source_.size()) {
      const char c = source_[at];
      const bool digit = base == 16 ? std::isxdigit(static_cast<unsigned char>(c)) != 0
                                    : c >= '0' && c < '0' + base;
      const bool joined = c == '_' && at + 1 < source_.size() && IsNamePart(source_[at + 1]);
      if (!digit && !joined) break;
      ++at;
    }
    return at;
  }

  void LexNumber() {
    const size_t begin = at_;
    int base = 10;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char x = static_cast<char>(std::tolower(static_cast<unsigned char>(source_[at_ + 1])));
      base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    }
    at_ = SkipDigits(at_ + (base == 10 ? 0 : 2), base);
    bool real = false;
    if (base == 10) {
      if (Has(".", at_) && at_ + 1 < source_.size() && IsDigit(source_[at_ + 1])) {
        real = true;
        at_ = SkipDigits(at_ + 1, 10);
      }
      if (Has("e", at_) || Has("E", at_)) {
        const size_t digits = at_ + 1 + (Has("+", at_ + 1) || Has("-", at_ + 1) ? 1 : 0);
        if (digits < source_.size() && IsDigit(source_[digits])) {
          real = true;
          at_ = SkipDigits(digits, 10);
        }
      }
    }
    std::string text;
    for (const char c : source_.substr(begin, at_ - begin)) {
      if (c != '_') text += c;
    }
    Add(real ? JinjaToken::Kind::kFloat : JinjaToken::Kind::kInteger, std::move(text), begin);
  }

  void LexString(char quote) {
    const size_t begin = at_++;
    std::string value;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
        ++at_;
        Escape(value);
      } else {
        value += source_[at_++];
      }
    }
    if (at_ >= source_.size()) Fail("a string has no end", begin);
    ++at_;
    Add(JinjaToken::Kind::kString, std::move(value), begin);
  }

  // Up to `digits` digits of `base` at `at_`; nullopt and nothing read: fewer than `least`.
  std::optional<uint32_t> EscapeNumber(size_t digits, size_t least, int base) {
    uint32_t code = 0;
    size_t read = 0;
    while (read < digits && at_ + read < source_.size()) {
      const char c = source_[at_ + read];
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) break;
      const int digit = IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      if (digit >= base) break;
      code = code * static_cast<uint32_t>(base) + static_cast<uint32_t>(digit);
      ++read;
    }
    if (read < least) return std::nullopt;
    at_ += read;
    return code;
  }

  // Behind a backslash, as Python reads it.
  void Escape(std::string& value) {
    const size_t begin = at_ - 1;
    const char c = source_[at_];
    constexpr std::string_view kNames = "nrtabfv\\'\"";
    constexpr std::string_view kValues = "\n\r\t\a\b\f\v\\'\"";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      value += kValues[i];
      ++at_;
      return;
    }
    std::optional<uint32_t> code;
    if (c >= '0' && c <= '7') {
      code = EscapeNumber(3, 1, 8);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++at_;
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      code = EscapeNumber(digits, digits, 16);
      const bool surrogate = code && *code >= 0xD800 && *code < 0xE000;
      if (!code || *code > 0x10FFFF || surrogate) Fail("a string has a wrong escape", begin);
    } else if (c == '\n') {
      ++at_;
      return;
    } else {
      value += '\\';  // Python keeps an escape it does not know
      return;
    }
    AppendCharacter(*code, value);
  }

  std::string_view source_;
  size_t at_ = 0;
  bool line_starting_ = true;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

std::string NormalizedSource(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<JinjaToken> LexTemplate(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace tidemill
