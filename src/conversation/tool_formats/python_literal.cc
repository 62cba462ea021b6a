#include "conversation/tool_formats/python_literal.h"

#include <cctype>
#include <cstdlib>

#include "conversation/tool_formats/call_reader.h"

namespace tidemill {
namespace {

constexpr size_t kWordBytesMax = 400;

void AppendUnicodeEscape(unsigned unit, std::string& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[unit >> shift & 15];
}

}  // namespace

bool PythonLiteral::Emit(std::string_view text, std::string& json) {
  for (const char c : text) {
    if (scanner_.Push(c) != JsonScanner::Step::kMore) return false;
  }
  json.append(text);
  any_ = true;
  return true;
}

bool PythonLiteral::EndWord(std::string& json) {
  if (word_.empty()) return true;
  if (word_ == "True") word_ = "true";
  if (word_ == "False") word_ = "false";
  if (word_ == "None") word_ = "null";
  const bool fits = Emit(word_, json);
  word_.clear();
  return fits;
}

PythonLiteral::Step PythonLiteral::Push(char c, std::string& json) {
  if (quote_ != 0) return StringByte(c, json) ? Step::kMore : Step::kError;
  if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '+' ||
      c == '_') {
    word_ += c;
    return word_.size() > kWordBytesMax ? Step::kError : Step::kMore;
  }
  if (!EndWord(json)) return Step::kError;
  if (IsJsonSpace(c)) return !any_ || Emit(" ", json) ? Step::kMore : Step::kError;
  return Structure(c, json);
}

PythonLiteral::Step PythonLiteral::Structure(char c, std::string& json) {
  if (open_.empty() && (c == ',' || c == ')')) {
    // The scanner agrees that the value is complete where its list may end now.
    return any_ && scanner_.Push(']') == JsonScanner::Step::kDone ? Step::kDone : Step::kError;
  }
  const char last = open_.empty() ? 0 : open_.back();
  bool fits = false;
  if (c == '\'' || c == '"') {
    quote_ = c;
    fits = Emit("\"", json);
  } else if (c == '[' || c == '{' || c == '(') {
    open_ += c;
    fits = Emit(c == '{' ? "{" : "[", json);
  } else if ((c == ']' && last == '[') || (c == '}' && last == '{') || (c == ')' && last == '(')) {
    open_.pop_back();
    fits = Emit(c == '}' ? "}" : "]", json);
  } else if (c == ',' || c == ':') {
    fits = Emit(std::string_view(&c, 1), json);
  }
  return fits ? Step::kMore : Step::kError;
}

bool PythonLiteral::StringByte(char c, std::string& json) {
  if (in_escape_) return EscapeByte(c, json);
  if (c == '\\') {
    in_escape_ = true;
    escape_.clear();
    return true;
  }
  if (c == quote_) {
    quote_ = 0;
    return Emit("\"", json);
  }
  std::string text;
  AppendJsonEscaped(std::string_view(&c, 1), text);
  return Emit(text, json);
}

bool PythonLiteral::EscapeByte(char c, std::string& json) {
  escape_ += c;
  const char kind = escape_[0];
  const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits > 0) {
    if (escape_.size() > 1 && std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
    if (escape_.size() <= digits) return true;
  }
  in_escape_ = false;
  std::string text;
  if (digits > 0) {
    const unsigned long code = std::strtoul(escape_.c_str() + 1, nullptr, 16);
    if (code > 0x10FFFF) return false;
    if (code >= 0x10000) {
      AppendUnicodeEscape(static_cast<unsigned>(0xD800 + ((code - 0x10000) >> 10)), text);
      AppendUnicodeEscape(static_cast<unsigned>(0xDC00 + ((code - 0x10000) & 0x3FF)), text);
    } else {
      AppendUnicodeEscape(static_cast<unsigned>(code), text);
    }
    return Emit(text, json);
  }
  constexpr std::string_view kNames = "nrtbfav0\\'\"";
  constexpr std::string_view kValues("\n\r\t\b\f\a\v\0\\'\"", 11);
  if (kind == '\n') return true;
  const size_t i = kNames.find(kind);
  // Python keeps an escape that it does not know.
  AppendJsonEscaped(
      i == std::string_view::npos ? std::string("\\") + kind : std::string(1, kValues[i]), text);
  return Emit(text, json);
}

}  // namespace tidemill
