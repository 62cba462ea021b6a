// For tests: which token comes next, where answers are scripted. Remembers the tokens in an
// engine's pages and looks at those in front of a draw.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_kernels.h"
#include "engine/decode_backend.h"
#include "model/tokenizer.h"

namespace tidemill {

// A conversation as the template wrote it, up to where the answer begins -> the answer.
using AnswerScript = std::function<std::string(const std::string& prompt)>;

// Conversations are ChatML: an answer begins behind "<|im_start|>assistant\n" and ends with
// <|im_end|>. A text without turns goes on with the alphabet. Not thread-safe.
class ScriptedDraws {
 public:
  ScriptedDraws(Tokenizer tokenizer, AnswerScript script)
      : tokenizer_(std::move(tokenizer)),
        script_(std::move(script)),
        open_(tokenizer_.AddedTokenId("<|im_start|>").value_or(-1)),
        end_(tokenizer_.AddedTokenId("<|im_end|>").value_or(-1)) {}

  // The rows of a segment are computed.
  void Write(const StepSegment& s) {
    int32_t position = s.first;
    for (const TokenId token : s.tokens) {
      At(s.pages[static_cast<size_t>(position / kPageSlots)])[position % kPageSlots] = token;
      ++position;
    }
  }
  void CopyPage(PageId from, PageId to) { At(to) = Page(At(from)); }

  // The token that follows the last row of `s`, which was written.
  TokenId Next(const StepSegment& s) {
    const auto length = static_cast<size_t>(s.first) + s.tokens.size();
    std::vector<TokenId> tokens(length);
    size_t opened = length;
    for (size_t i = 0; i < length; ++i) {
      tokens[i] = At(s.pages[i / kPageSlots])[i % kPageSlots];
      if (tokens[i] == open_) opened = i;
    }
    return opened == length ? Letter(length) : NextOf(tokens, opened);
  }

 private:
  using Page = std::array<TokenId, kPageSlots>;
  Page& At(PageId page) {
    const auto at = static_cast<size_t>(page);
    if (at >= pages_.size()) pages_.resize(at + 1);
    return pages_[at];
  }

  TokenId Letter(size_t length) const {
    const char letter = static_cast<char>('a' + length % 26);
    return tokenizer_.Encode(std::string(1, letter), SpecialTokens::kAsText).at(0);
  }

  TokenId NextOf(const std::vector<TokenId>& tokens, size_t opened) {
    // The turn's opening is "<|im_start|>assistant\n".
    size_t begin = opened + 1;
    std::string role;
    while (begin < tokens.size() && role.find('\n') == std::string::npos) {
      role += tokenizer_.TokenBytes(tokens[begin++]);
    }
    const std::span<const TokenId> prompt(tokens.data(), begin);
    const std::string text = tokenizer_.Decode(prompt);
    auto [it, fresh] = answers_.try_emplace(text);
    if (fresh) {
      it->second = tokenizer_.Encode(script_(text), SpecialTokens::kAsText);
      if (answers_.size() > 20'000) answers_.erase(answers_.begin());
    }
    return tokens.size() - begin < it->second.size() ? it->second[tokens.size() - begin] : end_;
  }

  const Tokenizer tokenizer_;
  const AnswerScript script_;
  const TokenId open_;
  const TokenId end_;
  std::vector<Page> pages_;  // grows with the pages used
  std::map<std::string, std::vector<TokenId>> answers_;
};

}  // namespace tidemill
