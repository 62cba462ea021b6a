#include "model/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr uint32_t kFirstNonTrivial = 0x300;  // below it all characters are NFC and start afresh

uint8_t Byte(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

// How one character or one ill-formed part at the start of `text` reads: its length, whether it is
// a character, and whether it ends with the text where a character could still go on.
struct Utf8Part {
  size_t bytes = 1;
  bool valid = false;
  bool open = false;
};

Utf8Part FirstPart(std::string_view text) {
  const uint8_t lead = Byte(text, 0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range keeps out overlong forms, surrogates and what is above U+10FFFF.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    const uint8_t byte = Byte(text, i);
    const bool fits = i == 1 ? byte >= low && byte <= high : (byte & 0xC0) == 0x80;
    if (!fits) return {i, false, false};
  }
  return {length, true, false};
}

size_t AsciiPrefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080ULL) break;
  }
  while (i < text.size() && Byte(text, i) < 0x80) ++i;
  return i;
}

// Canonical order: marks between two starters by class, equal ones as they were.
void OrderMarks(std::vector<int32_t>& points) {
  const auto mark_class = [](int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t i = 0; i < points.size();) {
    if (mark_class(points[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < points.size() && mark_class(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + static_cast<ptrdiff_t>(i),
                     points.begin() + static_cast<ptrdiff_t>(end),
                     [&](int32_t a, int32_t b) { return mark_class(a) < mark_class(b); });
    i = end;
  }
}

void AppendNfc(std::string_view text, std::string& out) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<int32_t> points;
  std::array<int32_t, 32> parts{};  // the longest canonical decomposition has four
  while (!text.empty()) {
    const CodePoint c = FirstCodePoint(text);
    int boundary = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(static_cast<int32_t>(c.value), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), kOptions, &boundary);
    TM_CHECK(n >= 0 && n <= static_cast<utf8proc_ssize_t>(parts.size()));
    points.insert(points.end(), parts.begin(), parts.begin() + n);
    text.remove_prefix(c.bytes);
  }
  OrderMarks(points);
  const utf8proc_ssize_t length = utf8proc_normalize_utf32(
      points.data(), static_cast<utf8proc_ssize_t>(points.size()), kOptions);
  TM_CHECK(length >= 0);
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    AppendUtf8(static_cast<uint32_t>(points[static_cast<size_t>(i)]), out);
  }
}

// Where the next character that NFC may change is, or the end. Characters below U+0300 have lead
// bytes below 0xCC.
size_t NextNonTrivial(std::string_view text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) {
    i += AsciiPrefix(text.substr(i));
    if (i < text.size() && Byte(text, i) >= 0xCC) return i;
  }
  return text.size();
}

struct ByteAlphabet {
  std::array<uint32_t, 256> to_char{};
  std::array<int16_t, 512> to_byte{};

  ByteAlphabet() {
    to_byte.fill(-1);
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      to_char[b] = printable ? b : next++;
      to_byte[to_char[b]] = static_cast<int16_t>(b);
    }
  }
};

const ByteAlphabet& Alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

CodePoint FirstCodePoint(std::string_view text) {
  const uint8_t lead = Byte(text, 0);
  if (lead < 0x80) return {lead, 1};
  const auto tail = [&](size_t i) { return uint32_t{Byte(text, i)} & 0x3F; };
  if (lead < 0xE0) return {(uint32_t{lead} & 0x1F) << 6 | tail(1), 2};
  if (lead < 0xF0) return {(uint32_t{lead} & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(uint32_t{lead} & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

void AppendUtf8(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (c & 0x3F));
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    i += AsciiPrefix(text.substr(i));
    if (i == text.size()) break;
    const Utf8Part part = FirstPart(text.substr(i));
    if (!part.valid) break;
    i += part.bytes;
  }
  return i;
}

size_t AppendUtf8Lossy(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t valid = ValidUtf8Prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const Utf8Part part = FirstPart(bytes);
    if (part.open) return part.bytes;
    out.append(kReplacement);
    bytes.remove_prefix(part.bytes);
  }
  return 0;
}

std::string Utf8Lossy(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (AppendUtf8Lossy(bytes, out) > 0) out.append(kReplacement);
  return out;
}

std::optional<std::string> ToNfc(std::string_view text) {
  size_t next = NextNonTrivial(text, 0);
  if (next == text.size()) return std::nullopt;
  std::string out;
  out.reserve(text.size());
  size_t done = 0;
  while (next < text.size()) {
    // The character before may take marks; the next one below U+0300 starts afresh.
    size_t begin = next;
    if (begin > done) {
      do --begin;
      while (begin > done && (Byte(text, begin) & 0xC0) == 0x80);
    }
    size_t end = next;
    while (end < text.size()) {
      const CodePoint c = FirstCodePoint(text.substr(end));
      if (c.value < kFirstNonTrivial) break;
      end += c.bytes;
    }
    out.append(text.substr(done, begin - done));
    AppendNfc(text.substr(begin, end - begin), out);
    done = end;
    next = NextNonTrivial(text, done);
  }
  out.append(text.substr(done));
  return out;
}

bool IsWhiteSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string BytesToAlphabet(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) AppendUtf8(Alphabet().to_char[static_cast<uint8_t>(byte)], out);
  return out;
}

std::optional<std::string> AlphabetToBytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = FirstCodePoint(text);
    if (c.value >= Alphabet().to_byte.size() || Alphabet().to_byte[c.value] < 0)
      return std::nullopt;
    out += static_cast<char>(Alphabet().to_byte[c.value]);
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace tidemill
