// Finds added tokens in text: at each place the longest, from the left, without overlap.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "policy/tokenizer.h"

namespace tidemill {

// Where a special token in a text is a token: everywhere, nowhere, or where `outside` lets it be
// (see Tokenizer::EncodeGuarded).
struct SpecialRule {
  SpecialRule(SpecialTokens special) : mode(special) {}  // NOLINT: one of two rules
  SpecialRule(std::span<const TextSpan> parts, size_t start)
      : mode(SpecialTokens::kRecognise), outside(parts), offset(start) {}
  SpecialTokens mode;
  std::span<const TextSpan> outside{};
  size_t offset = 0;  // where the text that is cut begins in the one that `outside` counts

  bool Allows(size_t begin, size_t end) const;
};

// Immutable, thread-safe.
class AddedTokenMatcher {
 public:
  // A piece of the text: an added token, or (token null) text between two.
  struct Piece {
    const AddedToken* token = nullptr;
    std::string_view text;
  };

  AddedTokenMatcher();
  // `spelling` is what to look for: the token's content, normalized or not; not empty. `token` must
  // outlive the matcher. Of two with one spelling the first counts.
  void Add(std::string_view spelling, const AddedToken* token);

  // Cuts valid UTF-8 into pieces that are not empty. Special tokens that the rule does not allow
  // are found and then let be, as in the reference: another token inside of them is not looked for.
  std::vector<Piece> Cut(std::string_view text, const SpecialRule& special) const;

 private:
  struct Node {
    const AddedToken* token = nullptr;
    std::vector<std::pair<uint8_t, uint32_t>> next;  // few: looked through one by one
  };
  struct Found {
    const AddedToken* token = nullptr;
    size_t begin = 0;
    size_t end = 0;
  };
  Found Next(std::string_view text, size_t from) const;

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> first_{};  // by first byte; 0: nothing starts with it
};

}  // namespace tidemill
