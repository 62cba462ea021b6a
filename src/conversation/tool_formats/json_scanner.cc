#include "conversation/tool_formats/json_scanner.h"

#include <cctype>
#include <string_view>

namespace tidemill {
namespace {

constexpr size_t kScannerDepthMax = 256;
constexpr size_t kScalarBytesMax = 400;

bool IsScalarByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
}

// Digits from `at` on; at least one.
bool SkipScalarDigits(std::string_view text, size_t& at) {
  const size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return at > begin;
}

bool IsJsonNumber(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const size_t first = at;
  if (!SkipScalarDigits(text, at) || (text[first] == '0' && at > first + 1)) return false;
  if (at < text.size() && text[at] == '.' && !SkipScalarDigits(text, ++at)) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!SkipScalarDigits(text, at)) return false;
  }
  return at == text.size();
}

}  // namespace

bool JsonScanner::ScalarIsWhole() const {
  return scalar_ == "true" || scalar_ == "false" || scalar_ == "null" || IsJsonNumber(scalar_);
}

JsonScanner::Step JsonScanner::Push(char c) {
  if (in_string_) return InString(c);
  if (!scalar_.empty()) return InScalar(c);
  return Structure(c);
}

JsonScanner::Step JsonScanner::InString(char c) {
  if (escape_ == 1) {
    if (c == 'u') {
      escape_ = 5;
      return Step::kMore;
    }
    escape_ = 0;
    return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? Step::kError
                                                                            : Step::kMore;
  }
  if (escape_ > 1) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return Step::kError;
    if (--escape_ == 1) escape_ = 0;
    return Step::kMore;
  }
  if (c == '\\') {
    escape_ = 1;
  } else if (c == '"') {
    in_string_ = false;
    want_ = key_ ? Want::kColon : Want::kCommaOrEnd;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    return Step::kError;
  }
  return Step::kMore;
}

JsonScanner::Step JsonScanner::InScalar(char c) {
  if (IsScalarByte(c)) {
    scalar_ += c;
    return scalar_.size() > kScalarBytesMax ? Step::kError : Step::kMore;
  }
  if (!ScalarIsWhole()) return Step::kError;
  scalar_.clear();
  want_ = Want::kCommaOrEnd;
  return Structure(c);
}

JsonScanner::Step JsonScanner::Structure(char c) {
  if (c == ' ' || c == '\n' || c == '\t' || c == '\r') return Step::kMore;
  switch (want_) {
    case Want::kKeyOrEnd:
    case Want::kKey:
      if (c == '}' && want_ == Want::kKeyOrEnd) return Close(c);
      if (c != '"') return Step::kError;
      in_string_ = key_ = true;
      return Step::kMore;
    case Want::kColon:
      want_ = Want::kValue;
      return c == ':' ? Step::kMore : Step::kError;
    case Want::kCommaOrEnd:
      if (c != ',') return Close(c);
      want_ = open_.back() == '{' ? Want::kKey : Want::kValue;
      return Step::kMore;
    case Want::kValueOrEnd:
      if (c == ']') return Close(c);
      return BeginValue(c);
    case Want::kValue:
      return BeginValue(c);
  }
  return Step::kError;
}

JsonScanner::Step JsonScanner::BeginValue(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() >= kScannerDepthMax) return Step::kError;
    open_.push_back(c);
    want_ = c == '{' ? Want::kKeyOrEnd : Want::kValueOrEnd;
    return Step::kMore;
  }
  if (open_.empty()) return Step::kError;
  if (c == '"') {
    in_string_ = true;
    key_ = false;
    return Step::kMore;
  }
  if (!IsScalarByte(c)) return Step::kError;
  scalar_ = c;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::Close(char c) {
  if (open_.empty() || c != (open_.back() == '{' ? '}' : ']')) return Step::kError;
  open_.pop_back();
  want_ = Want::kCommaOrEnd;
  return open_.empty() ? Step::kDone : Step::kMore;
}

}  // namespace tidemill
