#include "model/added_tokens.h"

#include <algorithm>

#include "model/text_regex.h"
#include "model/unicode.h"

namespace tidemill {
namespace {

size_t CharacterBefore(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

// Whether the character at `at` can be part of a word.
bool IsWordAt(std::string_view text, size_t at) {
  static const TextRegex word =
      TextRegex::FromPcre2("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]").value();
  return word.Find(text.substr(at, FirstCodePoint(text.substr(at)).bytes), 0).match.has_value();
}

bool TouchesWord(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && IsWordAt(text, CharacterBefore(text, begin))) ||
         (end < text.size() && IsWordAt(text, end));
}

size_t SkipSpaceBack(std::string_view text, size_t at) {
  while (at > 0) {
    const size_t before = CharacterBefore(text, at);
    if (!IsWhiteSpace(FirstCodePoint(text.substr(before)).value)) break;
    at = before;
  }
  return at;
}

size_t SkipSpace(std::string_view text, size_t at) {
  while (at < text.size()) {
    const CodePoint c = FirstCodePoint(text.substr(at));
    if (!IsWhiteSpace(c.value)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher() : nodes_(1) {}

void AddedTokenMatcher::Add(std::string_view spelling, const AddedToken* token) {
  uint32_t node = 0;
  for (const char c : spelling) {
    const auto byte = static_cast<uint8_t>(c);
    auto& next = nodes_[node].next;
    const auto it = std::find_if(next.begin(), next.end(),
                                 [&](const auto& edge) { return edge.first == byte; });
    if (it != next.end()) {
      node = it->second;
      continue;
    }
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    next.emplace_back(byte, fresh);
    if (node == 0) first_[byte] = fresh;
    nodes_.emplace_back();
    node = fresh;
  }
  if (nodes_[node].token == nullptr) nodes_[node].token = token;
}

AddedTokenMatcher::Found AddedTokenMatcher::Next(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    uint32_t node = first_[static_cast<uint8_t>(text[begin])];
    if (node == 0) continue;
    Found longest;
    for (size_t end = begin + 1;; ++end) {
      if (nodes_[node].token != nullptr) longest = {nodes_[node].token, begin, end};
      if (end == text.size()) break;
      const auto byte = static_cast<uint8_t>(text[end]);
      const auto& next = nodes_[node].next;
      const auto it = std::find_if(next.begin(), next.end(),
                                   [&](const auto& edge) { return edge.first == byte; });
      if (it == next.end()) break;
      node = it->second;
    }
    if (longest.token != nullptr) return longest;
  }
  return {};
}

bool SpecialRule::Allows(size_t begin, size_t end) const {
  if (mode == SpecialTokens::kAsText) return false;
  begin += offset;
  end += offset;
  const auto span = std::lower_bound(outside.begin(), outside.end(), begin,
                                     [](const TextSpan& s, size_t at) { return s.end <= at; });
  return span == outside.end() || span->begin >= end;
}

std::vector<AddedTokenMatcher::Piece> AddedTokenMatcher::Cut(std::string_view text,
                                                             const SpecialRule& special) const {
  std::vector<Piece> pieces;
  size_t done = 0;
  size_t from = 0;
  while (nodes_.size() > 1) {
    const Found found = Next(text, from);
    if (found.token == nullptr) break;
    from = found.end;
    const AddedToken& token = *found.token;
    if (token.special && !special.Allows(found.begin, found.end)) {
      // A token of the template's own may start inside of one that is partly from outside.
      if (!special.outside.empty()) from = found.begin + 1;
      continue;
    }
    if (token.single_word && TouchesWord(text, found.begin, found.end)) continue;
    size_t begin = found.begin;
    size_t end = found.end;
    if (token.lstrip) begin = std::max(SkipSpaceBack(text, begin), done);
    if (token.rstrip) end = SkipSpace(text, end);
    if (done < begin) pieces.push_back({nullptr, text.substr(done, begin - done)});
    pieces.push_back({&token, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) pieces.push_back({nullptr, text.substr(done)});
  return pieces;
}

}  // namespace tidemill
