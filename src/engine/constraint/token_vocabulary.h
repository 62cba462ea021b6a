// The tokens of a model as texts: a tree of their bytes, walked to find out which of them a
// constraint takes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "model/token_id.h"
#include "model/tokenizer.h"

namespace tidemill {

// Immutable. The tree lies flat, each node before its children; children ascend.
class TokenVocabulary {
 public:
  struct Node {
    uint8_t byte = 0;
    uint16_t depth = 0;    // 1: a first byte
    uint16_t deepest = 0;  // of the nodes below it and itself
    int32_t end = 0;       // one behind the last node below it
    int32_t tokens = 0;    // of those that end here the first is tokens()[tokens]
    int32_t count = 0;
  };

  // `texts` of tokens that may be drawn; those without a byte are left out. `ends`: the tokens that
  // end a turn, which are no text.
  TokenVocabulary(std::vector<std::pair<std::string_view, TokenId>> texts,
                  std::vector<TokenId> ends, int32_t size);

  // Of a tokenizer: special tokens are no text, but for `marks`.
  static TokenVocabulary Of(const Tokenizer& tokenizer, const std::vector<TokenId>& ends,
                            const std::vector<TokenId>& marks, int32_t size);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<TokenId>& ends() const { return ends_; }
  // One above the largest id.
  int32_t size() const { return size_; }
  int32_t depth() const { return depth_; }
  // The bytes of one of its tokens.
  std::string_view Bytes(TokenId id) const;
  // The bytes that are a token alone.
  const std::array<bool, 256>& single_bytes() const { return bytes_; }
  size_t bytes() const;

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;  // by node
  std::vector<TokenId> ends_;
  std::vector<uint32_t> text_at_;  // by id, into texts_; one more for the end
  std::string texts_;
  std::array<bool, 256> bytes_{};
  int32_t size_ = 0, depth_ = 0;
};

}  // namespace tidemill
