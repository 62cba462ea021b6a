#include "tools/paths.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemill {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The length of the valid UTF-8 sequence `bytes` starts with; 0: none.
size_t SequenceLength(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // Too long for what they say, surrogates, beyond the last character.
  if (first == 0xE0 && at(1) < 0xA0) return 0;
  if (first == 0xED && at(1) > 0x9F) return 0;
  if (first == 0xF0 && at(1) < 0x90) return 0;
  if (first == 0xF4 && at(1) > 0x8F) return 0;
  return length;
}

}  // namespace

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = SequenceLength(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string ToUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = SequenceLength(bytes);
    if (length == 0 || bytes[0] == '\0') {
      text += kReplacement;
      bytes.remove_prefix(1);
    } else {
      text.append(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  return text;
}

Status CheckPath(std::string_view path) {
  const auto wrong = [&](std::string_view why) {
    return Invalid(fmt::format("the path \"{}\" {}", ToUtf8(path.substr(0, 200)), why));
  };
  if (path.empty()) return Invalid("a file needs a path");
  if (path.size() > 1000) return wrong("is longer than 1000 bytes");
  if (path.front() == '/') return wrong("must be relative to the workspace");
  if (!IsUtf8(path)) return wrong("is not valid UTF-8");
  if (std::any_of(path.begin(), path.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; })) {
    return wrong("has a control character");
  }
  for (size_t start = 0; start <= path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, end - start);
    if (part.empty() || part == "." || part == "..")
      return wrong("has an empty, \".\" or \"..\" part");
    if (part.size() > 255) return wrong("has a part longer than 255 bytes");
    start = end + 1;
  }
  return Ok();
}

}  // namespace tidemill
