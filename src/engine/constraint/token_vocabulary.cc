#include "engine/constraint/token_vocabulary.h"

#include <algorithm>

namespace tidemill {
namespace {

constexpr size_t kTokenBytesMax = 4096;

// How many first bytes two texts share.
size_t SharedBytes(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

}  // namespace

TokenVocabulary::TokenVocabulary(std::vector<std::pair<std::string_view, TokenId>> texts,
                                 std::vector<TokenId> ends, int32_t size)
    : ends_(std::move(ends)), size_(size) {
  std::erase_if(texts, [](const auto& text) {
    return text.first.empty() || text.first.size() > kTokenBytesMax;
  });
  std::vector<std::string_view> by_id(static_cast<size_t>(size));
  for (const auto& [text, id] : texts) by_id[static_cast<size_t>(id)] = text;
  for (const std::string_view text : by_id) {
    text_at_.push_back(static_cast<uint32_t>(texts_.size()));
    texts_ += text;
  }
  text_at_.push_back(static_cast<uint32_t>(texts_.size()));
  std::sort(texts.begin(), texts.end());
  std::vector<int32_t> path;  // the nodes of the text before
  std::string_view before;
  for (const auto& [text, id] : texts) {
    const size_t shared = path.empty() ? 0 : SharedBytes(before, text);
    for (size_t i = shared; i < path.size(); ++i) {
      nodes_[static_cast<size_t>(path[i])].end = static_cast<int32_t>(nodes_.size());
    }
    path.resize(shared);
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({.byte = static_cast<uint8_t>(text[i]),
                        .depth = static_cast<uint16_t>(i + 1),
                        .end = 0,
                        .tokens = static_cast<int32_t>(tokens_.size()),
                        .count = 0});
    }
    Node& node = nodes_[static_cast<size_t>(path.back())];
    if (node.count == 0) node.tokens = static_cast<int32_t>(tokens_.size());
    ++node.count;
    tokens_.push_back(id);
    depth_ = std::max(depth_, static_cast<int32_t>(text.size()));
    if (text.size() == 1) bytes_[static_cast<uint8_t>(text[0])] = true;
    before = text;
  }
  for (const int32_t node : path) {
    nodes_[static_cast<size_t>(node)].end = static_cast<int32_t>(nodes_.size());
  }
  // What is below a node comes behind it.
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    node.deepest = node.depth;
    for (int32_t below = static_cast<int32_t>(i) + 1; below < node.end;
         below = nodes_[static_cast<size_t>(below)].end) {
      node.deepest = std::max(node.deepest, nodes_[static_cast<size_t>(below)].deepest);
    }
  }
}

TokenVocabulary TokenVocabulary::Of(const Tokenizer& tokenizer, const std::vector<TokenId>& ends,
                                    const std::vector<TokenId>& marks, int32_t size) {
  std::vector<std::pair<std::string_view, TokenId>> texts;
  const auto holds = [](const std::vector<TokenId>& ids, TokenId id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (holds(ends, id) || (tokenizer.IsSpecial(id) && !holds(marks, id))) continue;
    texts.emplace_back(tokenizer.TokenBytes(id), id);
  }
  return {std::move(texts), ends, std::max(size, tokenizer.vocab_size())};
}

std::string_view TokenVocabulary::Bytes(TokenId id) const {
  if (id < 0 || id >= size_) return {};
  const auto at = static_cast<size_t>(id);
  return std::string_view(texts_).substr(text_at_[at], text_at_[at + 1] - text_at_[at]);
}

size_t TokenVocabulary::bytes() const {
  return nodes_.size() * sizeof(Node) + tokens_.size() * sizeof(TokenId) +
         text_at_.size() * sizeof(uint32_t) + texts_.size();
}

}  // namespace tidemill
