#include "live/plain_view.h"

#include <numeric>
#include <utility>

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

constexpr std::pair<std::string_view, char> kEntities[] = {
    {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&lt;", '<'}, {"&gt;", '>'}};

// &#45; &#x2d; &amp;
Escape EntityAt(std::string_view text) {
  for (const auto& [name, letter] : kEntities) {
    if (text.starts_with(name)) return {name.size(), letter};
  }
  const size_t end = text.substr(0, 8).find(';');
  if (!text.starts_with("&#") || end == std::string_view::npos) return {};
  const bool hex = text[2] == 'x' || text[2] == 'X';
  int value = 0;
  for (const char digit : text.substr(hex ? 3 : 2, end - (hex ? 3 : 2))) {
    const int worth = HexOf({&digit, 1});
    if (worth < 0 || (!hex && worth > 9)) return {};
    value = value * (hex ? 16 : 10) + worth;
  }
  if (value <= ' ' || value > '~') return {};
  return {end + 1, static_cast<char>(value)};
}

// \055, three digits.
Escape OctalAt(std::string_view text) {
  if (text.size() < 4) return {};
  int value = 0;
  for (const char digit : text.substr(1, 3)) {
    if (digit < '0' || digit > '7') return {};
    value = value * 8 + (digit - '0');
  }
  if (value <= ' ' || value > '~') return {};
  return {4, static_cast<char>(value)};
}

Escape EscapeAt(std::string_view text) {
  const auto of_hex = [&](size_t prefix, size_t digits) -> Escape {
    if (text.size() < prefix + digits) return {};
    const int value = HexOf(text.substr(prefix, digits));
    if (value <= ' ' || value > '~') return {};
    return {prefix + digits, static_cast<char>(value)};
  };
  if (text[0] == '%') return of_hex(1, 2);
  if (text[0] == '&') return EntityAt(text);
  if (text[0] != '\\' || text.size() < 2) return {};
  if (text[1] == 'u') return of_hex(2, 4);
  if (text[1] == 'x') return of_hex(2, 2);
  if (text[1] == '/') return {2, '/'};
  return OctalAt(text);
}

// Whether anything changed.
bool UndoOnce(PlainView& view) {
  PlainView plain;
  bool changed = false;
  for (size_t at = 0; at < view.text.size();) {
    const char c = view.text[at];
    const bool may_be = c == '%' || c == '\\' || c == '&';
    const Escape escape = may_be ? EscapeAt(std::string_view(view.text).substr(at)) : Escape{};
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
  for (size_t at = text.find_first_of("%\\&"); at != std::string_view::npos;
       at = text.find_first_of("%\\&", at + 1)) {
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
