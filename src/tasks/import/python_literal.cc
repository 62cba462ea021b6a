#include "tasks/import/python_literal.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace tidemill {
namespace {

constexpr int kLiteralDepthMax = 100;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsWordCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string FloatText(double value) {
  if (std::isfinite(value) && value == std::trunc(value)) {
    char text[400];
    std::snprintf(text, sizeof(text), "%.0f", value == 0 ? 0.0 : value);
    return "i" + std::string(text);
  }
  char text[32];
  std::snprintf(text, sizeof(text), "f%016llx",
                static_cast<unsigned long long>(std::bit_cast<uint64_t>(value)));
  return text;
}

void AppendCodePoint(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 63));
    out += static_cast<char>(0x80 | (c & 63));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 63));
    out += static_cast<char>(0x80 | ((c >> 6) & 63));
    out += static_cast<char>(0x80 | (c & 63));
  }
}

class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  Result<std::string> Read() {
    TM_ASSIGN_OR_RETURN(std::string value, Value(0));
    Skip();
    if (at_ < text_.size()) return Stop("something follows the value");
    return value;
  }

 private:
  Status Stop(const std::string& what) const {
    return Invalid("no Python literal at character " + std::to_string(at_ + 1) + ": " + what);
  }
  void Skip() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  char Peek() {
    Skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Result<std::string> Value(int depth) {
    if (depth > kLiteralDepthMax) return Stop("it is nested too deeply");
    const char c = Peek();
    if (c == '[') return Sequence('[', ']', depth);
    if (c == '(') return Sequence('(', ')', depth);
    if (c == '{') return Braces(depth);
    if (c == '-' || c == '+' || c == '.' || IsDigit(c)) return Complex();
    if (c == '\'' || c == '"' || IsWordCharacter(c)) return WordOrText();
    return Stop(c == '\0' ? "it ends here" : std::string("'") + c + "' begins none");
  }

  Result<std::string> Sequence(char open, char close, int depth) {
    Take(open);
    std::string out(1, open);
    size_t count = 0;
    bool comma = false;
    std::string only;
    while (!Take(close)) {
      if (count > 0 && !comma) return Stop("a comma is missing");
      TM_ASSIGN_OR_RETURN(const std::string value, Value(depth + 1));
      only = value;
      out += (count++ > 0 ? "," : "") + value;
      comma = Take(',');
    }
    if (open == '(' && count == 1 && !comma) return only;  // only parentheses
    return out + close;
  }

  Result<std::string> Braces(int depth) {
    Take('{');
    std::set<std::string> members;
    std::map<std::string, std::string> items;
    bool comma = true;
    while (!Take('}')) {
      if (!comma) return Stop("a comma is missing");
      TM_ASSIGN_OR_RETURN(const std::string key, Value(depth + 1));
      if (Take(':')) {
        TM_ASSIGN_OR_RETURN(items[key], Value(depth + 1));
      } else {
        members.insert(key);
      }
      if (!items.empty() && !members.empty()) return Stop("neither a set nor a dictionary");
      comma = Take(',');
    }
    if (!members.empty()) {
      std::string out;
      for (const std::string& member : members) out += (out.empty() ? "{" : ",") + member;
      return out + "}";
    }
    // As the other side sorts them: by the whole item.
    std::set<std::string> sorted;
    for (const auto& [key, value] : items) sorted.insert(key + ":" + value);
    std::string out;
    for (const std::string& item : sorted) out += (out.empty() ? "" : ",") + item;
    return "d{" + out + "}";
  }

  struct Number {
    std::string text;  // canonical
    double value = 0;
    bool imaginary = false;
  };

  Result<Number> OneNumber() {
    bool negative = false;
    for (char c = Peek(); c == '-' || c == '+'; c = Peek()) {
      negative ^= c == '-';
      ++at_;
    }
    std::string digits;
    const size_t begin = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool sign = (c == '-' || c == '+') && at_ > begin &&
                        (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') &&
                        digits.find_first_of("xX") == std::string::npos;
      if (!IsWordCharacter(c) && c != '.' && !sign) break;
      if (c != '_') digits += c;
      ++at_;
    }
    Number number;
    if (!digits.empty() && (digits.back() == 'j' || digits.back() == 'J')) {
      number.imaginary = true;
      digits.pop_back();
    }
    if (digits.empty()) return Stop("a number is missing");
    char* end = nullptr;
    const bool based = digits.size() > 1 && digits[0] == '0' && !IsDigit(digits[1]) &&
                       std::string_view("xXoObB").find(digits[1]) != std::string_view::npos;
    if (based) {
      const char kind = static_cast<char>(digits[1] | 0x20);
      const uint64_t value =
          std::strtoull(digits.c_str() + 2, &end, kind == 'x' ? 16 : (kind == 'o' ? 8 : 2));
      if (digits.size() > 17 || digits.size() == 2)
        return Stop("a number of this form is too long");
      digits = std::to_string(value);
      if (*end != '\0') return Stop("not a number");
    }
    number.value = std::strtod(digits.c_str(), &end);
    if (*end != '\0') return Stop("not a number");
    if (negative) number.value = -number.value;
    const bool whole = digits.find_first_not_of("0123456789") == std::string::npos;
    if (!whole || number.imaginary) {
      number.text = FloatText(number.value);
      return number;
    }
    const size_t first = digits.find_first_not_of('0');
    digits = first == std::string::npos ? "0" : digits.substr(first);
    number.text = std::string("i") + (negative && digits != "0" ? "-" : "") + digits;
    return number;
  }

  // A number, or "1+2j".
  Result<std::string> Complex() {
    TM_ASSIGN_OR_RETURN(const Number first, OneNumber());
    if (first.imaginary) return ComplexText(0, first.value);
    if (Peek() != '+' && Peek() != '-') return first.text;
    TM_ASSIGN_OR_RETURN(const Number second, OneNumber());
    if (!second.imaginary) return Stop("arithmetic is not a literal");
    return ComplexText(first.value, second.value);
  }
  static std::string ComplexText(double real, double imaginary) {
    if (imaginary == 0) return FloatText(real);
    return "c" + FloatText(real) + FloatText(imaginary);
  }

  Result<std::string> WordOrText() {
    const size_t begin = at_;
    size_t end = at_;
    while (end < text_.size() && IsWordCharacter(text_[end])) ++end;
    const std::string_view word = text_.substr(begin, end - begin);
    if (end < text_.size() && (text_[end] == '\'' || text_[end] == '"')) return Texts();
    at_ = end;
    if (word == "None") return std::string("N");
    if (word == "True") return std::string("i1");
    if (word == "False") return std::string("i0");
    if (word == "set" && Take('(') && Take(')')) return std::string("{}");
    at_ = begin;
    return Stop("\"" + std::string(word) + "\" is a name");
  }

  // One or several strings, which count as one.
  Result<std::string> Texts() {
    std::string all;
    bool bytes = false;
    for (bool first = true;; first = false) {
      Skip();
      bool raw = false, is_bytes = false;
      size_t at = at_;
      while (at < text_.size() && IsWordCharacter(text_[at])) {
        const char c = static_cast<char>(text_[at++] | 0x20);
        if (c == 'r') {
          raw = true;
        } else if (c == 'b') {
          is_bytes = true;
        } else if (c != 'u') {
          return Stop("a string of this kind is not a literal");
        }
      }
      if (at >= text_.size() || (text_[at] != '\'' && text_[at] != '"')) break;
      if (!first && is_bytes != bytes) return Stop("text and bytes cannot be joined");
      at_ = at;
      bytes = is_bytes;
      TM_RETURN_IF_ERROR(OneText(raw, bytes, all));
    }
    if (bytes) return "b" + HexText(all);
    try {
      return nlohmann::json(all).dump(-1, ' ', true);
    } catch (const nlohmann::json::exception&) {
      return Stop("the string is not valid UTF-8");
    }
  }
  static std::string HexText(const std::string& bytes) {
    std::string out;
    for (const char c : bytes) {
      out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
      out += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
    }
    return out;
  }

  Status OneText(bool raw, bool bytes, std::string& out) {
    const char quote = text_[at_];
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_, 3) == three;
    const std::string_view close = std::string_view(three).substr(0, is_long ? 3 : 1);
    at_ += close.size();
    while (text_.substr(at_, close.size()) != close) {
      if (at_ >= text_.size()) return Stop("a string is not closed");
      if (text_[at_] != '\\') {
        out += text_[at_++];
      } else if (raw) {
        if (at_ + 1 >= text_.size()) return Stop("a string is not closed");
        out += text_.substr(at_, 2);
        at_ += 2;
      } else {
        TM_RETURN_IF_ERROR(Escape(bytes, out));
      }
    }
    at_ += close.size();
    return Ok();
  }

  Status Escape(bool bytes, std::string& out) {
    if (at_ + 1 >= text_.size()) return Stop("a string is not closed");
    const char c = text_[at_ + 1];
    at_ += 2;
    const size_t simple = std::string_view("abfnrtv\\'\"").find(c);
    if (simple != std::string_view::npos) {
      out += "\a\b\f\n\r\t\v\\'\""[simple];
      return Ok();
    }
    if (c == '\n') return Ok();
    if (c >= '0' && c <= '7') {
      uint32_t value = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
        value = value * 8 + static_cast<uint32_t>(text_[at_++] - '0');
      }
      return Put(value, bytes, out);
    }
    const size_t count = c == 'x' ? 2 : (!bytes && c == 'u' ? 4 : (!bytes && c == 'U' ? 8 : 0));
    if (count == 0) {
      if (c == 'N' && !bytes) return Stop("characters by name are not supported");
      out += '\\';
      out += c;
      return Ok();
    }
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i, ++at_) {
      const size_t digit =
          at_ < text_.size()
              ? std::string_view("0123456789abcdef").find(static_cast<char>(text_[at_] | 0x20))
              : std::string_view::npos;
      if (digit == std::string_view::npos) return Stop("an escape is not complete");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return Stop("no character");
    return Put(value, bytes, out);
  }
  static Status Put(uint32_t value, bool bytes, std::string& out) {
    if (bytes) {
      out += static_cast<char>(value);
    } else {
      AppendCodePoint(value, out);
    }
    return Ok();
  }

  std::string_view text_;
  size_t at_ = 0;
};

// Where the last "==" outside of brackets and strings stands; npos: nowhere.
size_t LastEquality(std::string_view text, size_t& comma) {
  size_t found = std::string_view::npos;
  comma = std::string_view::npos;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'' || c == '"') {
      for (++i; i < text.size() && text[i] != c; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (std::string_view("([{").find(c) != std::string_view::npos) {
      ++depth;
    } else if (std::string_view(")]}").find(c) != std::string_view::npos) {
      --depth;
    } else if (depth == 0 && c == ',' && comma == std::string_view::npos &&
               found != std::string_view::npos) {
      comma = i;
    } else if (depth == 0 && text.substr(i, 2) == "==" && comma == std::string_view::npos) {
      found = i++;
    }
  }
  return found;
}

std::string_view WithoutBlanks(std::string_view text) {
  while (!text.empty() &&
         std::string_view(" \t\r\n;").find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  while (!text.empty() &&
         std::string_view(" \t\r\n").find(text.front()) != std::string_view::npos) {
    text.remove_prefix(1);
  }
  return text;
}

}  // namespace

Result<std::string> CanonicalLiteral(std::string_view python) {
  return LiteralReader(python).Read();
}

Result<PythonAssertion> ParseAssertion(std::string_view statement) {
  std::string_view text = WithoutBlanks(statement);
  if (!text.starts_with("assert") || text.size() < 7 || IsWordCharacter(text[6])) {
    return Invalid("it does not begin with \"assert\"");
  }
  text = WithoutBlanks(text.substr(6));
  size_t comma = 0;
  const size_t at = LastEquality(text, comma);
  if (at == std::string_view::npos) return Invalid("it compares with nothing by \"==\"");
  PythonAssertion assertion;
  assertion.expression = WithoutBlanks(text.substr(0, at));
  // The text behind a comma is the assertion's message.
  const size_t end = comma == std::string_view::npos ? text.size() : comma;
  assertion.literal = WithoutBlanks(text.substr(at + 2, end - at - 2));
  if (assertion.expression.empty()) return Invalid("there is nothing in front of \"==\"");
  // An exam asks line by line; outside of strings a line's end is a space.
  for (char& c : assertion.expression) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  TM_ASSIGN_OR_RETURN(assertion.expected, CanonicalLiteral(assertion.literal));
  return assertion;
}

}  // namespace tidemill
