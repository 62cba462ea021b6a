#include "live/plain_view.h"

#include <numeric>

namespace tidemill {
namespace {

constexpr int kRounds = 3;  // "%25252D"

int HexOf(std::string_view digits) {
  int value = 0;
  for (const char c : digits) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

struct Escape {
  size_t bytes = 0;  // 0: there is none
  char stands_for = 0;
};

Escape EscapeAt(std::string_view text) {
  const auto of_hex = [&](size_t prefix, size_t digits) -> Escape {
    if (text.size() < prefix + digits) return {};
    const int value = HexOf(text.substr(prefix, digits));
    if (value <= ' ' || value > '~') return {};
    return {prefix + digits, static_cast<char>(value)};
  };
  if (text[0] == '%') return of_hex(1, 2);
  if (text[0] != '\\' || text.size() < 2) return {};
  if (text[1] == 'u') return of_hex(2, 4);
  if (text[1] == 'x') return of_hex(2, 2);
  if (text[1] == '/') return {2, '/'};
  return {};
}

// Whether anything changed.
bool UndoOnce(PlainView& view) {
  PlainView plain;
  bool changed = false;
  for (size_t at = 0; at < view.text.size();) {
    const char c = view.text[at];
    const Escape escape =
        c == '%' || c == '\\' ? EscapeAt(std::string_view(view.text).substr(at)) : Escape{};
    changed = changed || escape.bytes > 0;
    plain.begins.push_back(view.begins[at]);
    plain.text += escape.bytes > 0 ? escape.stands_for : c;
    at += escape.bytes > 0 ? escape.bytes : 1;
  }
  plain.begins.push_back(view.begins.back());
  if (changed) view = std::move(plain);
  return changed;
}

bool HasEscape(std::string_view text) {
  for (size_t at = text.find_first_of("%\\"); at != std::string_view::npos;
       at = text.find_first_of("%\\", at + 1)) {
    if (EscapeAt(text.substr(at)).bytes > 0) return true;
  }
  return false;
}

}  // namespace

std::optional<PlainView> PlainViewOf(std::string_view text) {
  if (!HasEscape(text)) return std::nullopt;
  PlainView view{std::string(text), std::vector<size_t>(text.size() + 1)};
  std::iota(view.begins.begin(), view.begins.end(), size_t{0});
  for (int round = 0; round < kRounds && UndoOnce(view); ++round) {
  }
  return view;
}

}  // namespace tidemill
