// Reads the text of a pattern or a grammar, character by character, and keeps the first thing that
// is wrong with where it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tidemill {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  bool AtEnd() const { return at_ >= text_.size(); }
  size_t at() const { return at_; }
  void GoTo(size_t at) { at_ = at; }
  bool Is(char c) const { return !AtEnd() && text_[at_] == c; }
  bool IsDigit() const { return !AtEnd() && text_[at_] >= '0' && text_[at_] <= '9'; }
  bool IsSecond(char c) const { return at_ + 1 < text_.size() && text_[at_ + 1] == c; }
  // Whether it is there; if so it is behind us.
  bool Take(char c);
  bool Take(std::string_view word);
  // A whole character, decoded. Fails at the end and where bytes are no UTF-8.
  uint32_t Character();
  // So many hexadecimal digits.
  uint32_t Hex(int digits);
  // A number of at most `most`; nullopt: none is here. Fails where it is larger.
  std::optional<int64_t> Number(int64_t most);

  void Fail(std::string_view what);
  bool failed() const { return failed_; }
  const std::string& error() const { return error_; }

 private:
  const std::string_view text_;
  size_t at_ = 0;
  bool failed_ = false;
  std::string error_;
};

}  // namespace tidemill
