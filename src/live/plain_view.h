// A text as it reads once its escapes are undone: "%2D" and "\u002d" are "-", "\/" is "/". With
// the place of each byte in the text as it is.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemill {

struct PlainView {
  std::string text;
  // Where each byte begins in the original; one more for the end.
  std::vector<size_t> begins;
};

// Only characters of ASCII that can be seen are undone, and those whose own escapes were escaped, a
// few times over. Nothing: there are no escapes.
std::optional<PlainView> PlainViewOf(std::string_view text);

}  // namespace tidemill
