#include "engine/constraint/text_reader.h"

#include <algorithm>

namespace tidemill {

bool TextReader::Take(char c) {
  if (!Is(c)) return false;
  ++at_;
  return true;
}

bool TextReader::Take(std::string_view word) {
  if (text_.substr(std::min(at_, text_.size()), word.size()) != word) return false;
  at_ += word.size();
  return true;
}

uint32_t TextReader::Character() {
  if (AtEnd()) {
    Fail("it ends in the middle");
    return 0;
  }
  const auto lead = static_cast<unsigned char>(text_[at_]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length == 0 || lead > 0xF4 || at_ + length > text_.size()) {
    Fail("bytes that are no UTF-8");
    ++at_;
    return 0;
  }
  uint32_t value = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text_[at_ + i]);
    if ((byte & 0xC0) != 0x80) Fail("bytes that are no UTF-8");
    value = value << 6 | (byte & 0x3F);
  }
  at_ += length;
  return value;
}

uint32_t TextReader::Hex(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = AtEnd() ? ' ' : text_[at_];
    uint32_t digit = 16;
    if (c >= '0' && c <= '9') digit = static_cast<uint32_t>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<uint32_t>(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') digit = static_cast<uint32_t>(c - 'A') + 10;
    if (digit == 16) {
      Fail("a hexadecimal digit is missing");
      return 0;
    }
    value = value * 16 + digit;
    ++at_;
  }
  return value;
}

std::optional<int64_t> TextReader::Number(int64_t most) {
  if (!IsDigit()) return std::nullopt;
  int64_t value = 0;
  while (IsDigit()) {
    value = value * 10 + (text_[at_] - '0');
    ++at_;
    if (value > most) {
      Fail("a repetition of more than " + std::to_string(most));
      return std::nullopt;
    }
  }
  return value;
}

void TextReader::Fail(std::string_view what) {
  if (failed_) return;
  failed_ = true;
  error_ = "at byte " + std::to_string(at_ + 1) + ": " + std::string(what);
}

}  // namespace tidemill
