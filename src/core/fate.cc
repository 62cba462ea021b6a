#include "core/fate.h"

#include <algorithm>
#include <iterator>

namespace tidemill {
namespace {

constexpr bool RowsAreInOrder() {
  for (size_t i = 0; i < std::size(kFates); ++i) {
    if (static_cast<size_t>(kFates[i].fate) != i) return false;
  }
  for (size_t i = 0; i < std::size(kFailures); ++i) {
    if (static_cast<size_t>(kFailures[i].failure) != i) return false;
  }
  return true;
}
static_assert(RowsAreInOrder());

}  // namespace

const FateRow& RowOf(Fate fate) {
  return kFates[static_cast<size_t>(fate)];
}

std::optional<Fate> FateNamed(std::string_view name) {
  const auto row = std::find_if(std::begin(kFates), std::end(kFates),
                                [&](const FateRow& one) { return one.name == name; });
  return row == std::end(kFates) ? std::nullopt : std::optional(row->fate);
}

bool FateIsLive(std::string_view name) {
  const std::optional<Fate> fate = FateNamed(name);
  return fate && RowOf(*fate).live;
}

std::string Quoted(Fate fate) {
  return "'" + FateName(fate) + "'";
}

std::string LiveFatesSql() {
  std::string list;
  for (const FateRow& row : kFates) {
    if (row.live) list += (list.empty() ? "" : ", ") + Quoted(row.fate);
  }
  return list;
}

std::string FateNames() {
  std::string list;
  for (const FateRow& row : kFates) list += (list.empty() ? "" : ", ") + std::string(row.name);
  return list;
}

std::string FailureText(Failure failure, std::string_view detail) {
  std::string text(RowOf(failure).words);
  if (!detail.empty()) text.append(": ").append(detail);
  return text;
}

std::optional<Failure> FailureNamed(std::string_view words) {
  const auto row = std::find_if(std::begin(kFailures), std::end(kFailures),
                                [&](const FailureRow& one) { return one.words == words; });
  return row == std::end(kFailures) ? std::nullopt : std::optional(row->failure);
}

}  // namespace tidemill
