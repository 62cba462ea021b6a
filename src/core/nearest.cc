#include "core/nearest.h"

#include <algorithm>

namespace tidemill {
namespace {

std::string_view LastPart(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  // Optimal string alignment: the two rows before the current one are enough.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kWordMax = 256;
  if (word.size() > kWordMax) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = EditDistance(word, candidate);
    const bool dotted = candidate.find('.') != std::string::npos;
    if (dotted && LastPart(word) == LastPart(candidate)) distance = std::min<size_t>(distance, 2);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestWord(word, candidates);
  return nearest.empty() ? "" : " Did you mean \"" + nearest + "\"?";
}

}  // namespace tidemill
