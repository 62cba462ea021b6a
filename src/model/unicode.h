// UTF-8, NFC and the byte alphabet of byte-level tokenizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tidemill {

// The code point at the start of valid UTF-8 that is not empty, and its length in bytes.
struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 1;
};
CodePoint FirstCodePoint(std::string_view valid_utf8);
void AppendUtf8(uint32_t code_point, std::string& out);

// The length of the longest prefix that is valid UTF-8.
size_t ValidUtf8Prefix(std::string_view text);
// With every maximal ill-formed part replaced by U+FFFD.
std::string Utf8Lossy(std::string_view bytes);
// Appends the lossy reading of `bytes` to `out`, but leaves alone an end that further bytes could
// complete to a character; returns its length (0 to 3).
size_t AppendUtf8Lossy(std::string_view bytes, std::string& out);

// Canonical composition (NFC) of valid UTF-8. Text that has nothing to compose is recognised at the
// speed of a scan: nullopt, it is NFC already.
std::optional<std::string> ToNfc(std::string_view valid_utf8);

// Unicode's White_Space.
bool IsWhiteSpace(uint32_t code_point);

// Byte-level tokenizers spell each byte as one printable character ("Ġ" is a space).
std::string BytesToAlphabet(std::string_view bytes);
// nullopt: a character that stands for no byte.
std::optional<std::string> AlphabetToBytes(std::string_view valid_utf8);

}  // namespace tidemill
