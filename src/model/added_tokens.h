// Finds added tokens in text: at each place the longest, from the left, without overlap.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/tokenizer.h"

namespace tidemill {

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

  // Cuts valid UTF-8 into pieces that are not empty. With kAsText special tokens are found and then
  // let be, as in the reference: another token inside of them is not looked for.
  std::vector<Piece> Cut(std::string_view text, SpecialTokens special) const;

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
