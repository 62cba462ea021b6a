// A range of bytes in a text.
#pragma once

#include <cstddef>

namespace tidemill {

struct TextSpan {
  size_t begin = 0;
  size_t end = 0;  // one behind the last
  bool operator==(const TextSpan&) const = default;
};

}  // namespace tidemill
