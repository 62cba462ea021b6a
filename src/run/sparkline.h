// A row of bars, one for each value between 0 and 1.
#pragma once

#include <algorithm>
#include <string>

namespace tidemill {

template <typename Values>
std::string Sparkline(const Values& values) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const double value : values) text += kBars[std::clamp(static_cast<int>(value * 8), 0, 7)];
  return text;
}

}  // namespace tidemill
