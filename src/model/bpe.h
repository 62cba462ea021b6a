// Byte-pair encoding of one pre-token: bytes, then the most wanted merge again and again.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/token_id.h"

namespace tidemill {

// The merge of two neighbours, and how soon: the lower the rank, the earlier.
struct Merge {
  uint32_t rank = 0;
  TokenId result = 0;
};

// (left id, right id) to Merge. Open addressing; filled once, then only read.
class MergeTable {
 public:
  explicit MergeTable(size_t merges);
  // A pair that is there already gets the new merge, as in the reference.
  void Insert(TokenId left, TokenId right, Merge merge);
  // Null: these two do not merge.
  const Merge* Find(TokenId left, TokenId right) const {
    const uint64_t key = Key(left, right);
    for (size_t i = Slot(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return &slots_[i].merge;
      if (slots_[i].key == kEmpty) return nullptr;
    }
  }

 private:
  struct Entry {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair of ids from 0
  static uint64_t Key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  // The product's upper bits depend on both ids.
  size_t Slot(uint64_t key) const { return (key ^ key >> 29) * 0x9E3779B97F4A7C15ULL >> shift_; }

  std::vector<Entry> slots_;
  size_t mask_;
  int shift_;
};

struct BpeVocabulary {
  std::array<TokenId, 256> byte_ids{};           // -1: the byte is no token
  TokenId unknown_id = -1;                       // stands for such bytes; -1: they are left out
  bool fuse_unknown = false;                     // several in a row become one
  bool ignore_merges = false;                    // a pre-token that is a token is taken whole
  std::unordered_map<std::string, TokenId> ids;  // by bytes
};

// Immutable, thread-safe: each thread keeps a cache of its own, bounded in size.
class Bpe {
 public:
  Bpe(BpeVocabulary vocabulary, MergeTable merges);
  // Appends the ids of one pre-token. Linear but for the merges: n log n in its length.
  void Encode(std::string_view pre_token, std::vector<TokenId>& ids) const;
  const BpeVocabulary& vocabulary() const { return vocabulary_; }

 private:
  void EncodeUncached(std::string_view pre_token, std::vector<TokenId>& ids) const;

  BpeVocabulary vocabulary_;
  MergeTable merges_;
  uint64_t serial_;  // tells this instance's cache entries from others'
};

}  // namespace tidemill
