// A set of tokens that may be drawn.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "model/token_id.h"

namespace tidemill {

// Immutable, thread-safe. Small sets are kept as ids, large ones as bits.
class TokenMask {
 public:
  static constexpr size_t kFew = 512;

  TokenMask() = default;
  // `bits` has a bit for each id, the lowest bit of the first word first.
  explicit TokenMask(std::vector<uint64_t> bits);
  // In any order, each once; at most kFew.
  explicit TokenMask(std::vector<TokenId> ids);

  bool Allows(TokenId id) const;
  size_t count() const { return count_; }
  // The ids ascending, behind one another in `ids`; only those below `vocabulary`.
  void AppendIds(int32_t vocabulary, std::vector<TokenId>& ids) const;
  // The logits of the set, in the order of its ids.
  void Gather(std::span<const float> logits, std::vector<float>& gathered) const;
  // The id at that place among them.
  TokenId At(size_t place) const;
  // A bit for each id below `vocabulary`, in 32-bit words, as a GPU reads them.
  void FillWords(std::span<uint32_t> words) const;
  // EncodeSupport of the set (core/token_support.h), which is not empty. Made when it is first
  // asked for.
  const std::string& support() const;
  size_t bytes() const;

 private:
  std::vector<TokenId> few_;     // ascending; empty where there are bits
  std::vector<uint64_t> bits_;   // empty where there are few
  std::vector<uint32_t> ranks_;  // of every eighth word: the ids before it
  size_t count_ = 0;
  mutable std::once_flag described_;
  mutable std::string support_;
};

}  // namespace tidemill
