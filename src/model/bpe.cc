#include "model/bpe.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <queue>
#include <span>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr size_t kLinearMax = 48;  // up to here a scan for the best pair beats a queue

// The ids of recent short pre-tokens. Direct-mapped: a newcomer takes the place of what was there.
class PreTokenCache {
 public:
  static constexpr size_t kBytesMax = 24;
  static constexpr size_t kIdsMax = 8;

  struct Entry {
    uint64_t serial = 0;  // of the Bpe it belongs to; 0: empty
    uint8_t length = 0;
    uint8_t count = 0;
    std::array<char, kBytesMax> bytes{};
    std::array<TokenId, kIdsMax> ids{};
  };

  Entry& At(uint64_t serial, std::string_view bytes) {
    uint64_t hash = serial * 0x9E3779B97F4A7C15ULL ^ bytes.size();
    for (size_t i = 0; i < bytes.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
      hash = (hash ^ word) * 0xD6E8FEB86659FD93ULL;
      hash ^= hash >> 32;
    }
    return entries_[hash & (kEntries - 1)];
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 14;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

PreTokenCache& ThreadCache() {
  thread_local const std::unique_ptr<PreTokenCache> cache = std::make_unique<PreTokenCache>();
  return *cache;
}

uint64_t NextSerial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1);
}

// Merges in place; the best pair is found by a scan.
void MergeLinear(const MergeTable& merges, std::vector<TokenId>& ids, size_t begin) {
  size_t count = ids.size() - begin;
  TokenId* const symbol = ids.data() + begin;
  std::array<Merge, kLinearMax> merge;  // of symbol i with the next
  const auto look_up = [&](size_t i) {
    const Merge* found = i + 1 < count ? merges.Find(symbol[i], symbol[i + 1]) : nullptr;
    merge[i] = found != nullptr ? *found : Merge{kNoRank, 0};
  };
  for (size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merge[i].rank < merge[best].rank) best = i;
    }
    if (merge[best].rank == kNoRank) break;
    symbol[best] = merge[best].result;
    std::copy(symbol + best + 2, symbol + count, symbol + best + 1);
    std::copy(merge.data() + best + 2, merge.data() + count, merge.data() + best + 1);
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids.resize(begin + count);
}

// The same with a queue of candidates, for long pre-tokens: a linked list of symbols, merges by
// rank and then from the left; a candidate whose symbols have changed since is passed over.
class QueueMerger {
 public:
  QueueMerger(const MergeTable& merges, std::span<const TokenId> ids) : merges_(merges) {
    TM_CHECK(ids.size() < std::numeric_limits<int32_t>::max(), "a word of two gigabytes");
    symbols_.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      symbols_.push_back({ids[i], static_cast<int32_t>(i) - 1,
                          i + 1 < ids.size() ? static_cast<int32_t>(i) + 1 : -1});
    }
  }

  void Run(std::vector<TokenId>& ids, size_t begin) {
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) Propose(static_cast<int32_t>(i));
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      Apply(top);
    }
    ids.resize(begin);
    for (int32_t i = 0; i >= 0; i = At(i).next) ids.push_back(At(i).id);
  }

 private:
  struct Symbol {
    TokenId id;  // -1: swallowed by its left neighbour
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    uint32_t rank;
    TokenId result;
    int32_t at;
    bool operator<(const Candidate& other) const {  // the queue's top is the largest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  Symbol& At(int32_t i) { return symbols_[static_cast<size_t>(i)]; }

  void Propose(int32_t at) {
    const Merge* merge = merges_.Find(At(at).id, At(At(at).next).id);
    if (merge != nullptr) queue_.push({merge->rank, merge->result, at});
  }

  void Apply(const Candidate& candidate) {
    Symbol& left = At(candidate.at);
    if (left.id < 0 || left.next < 0) return;
    Symbol& right = At(left.next);
    const Merge* merge = merges_.Find(left.id, right.id);
    if (merge == nullptr || merge->result != candidate.result) return;
    left.id = candidate.result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) {
      At(left.next).previous = candidate.at;
      Propose(candidate.at);
    }
    if (left.previous >= 0) Propose(left.previous);
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(std::max<size_t>(16, merges * 2))),
      mask_(slots_.size() - 1),
      shift_(64 - std::countr_zero(slots_.size())) {}

void MergeTable::Insert(TokenId left, TokenId right, Merge merge) {
  const uint64_t key = Key(left, right);
  size_t i = Slot(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  slots_[i] = {key, merge};
}

Bpe::Bpe(BpeVocabulary vocabulary, MergeTable merges)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), serial_(NextSerial()) {}

void Bpe::Encode(std::string_view pre_token, std::vector<TokenId>& ids) const {
  if (pre_token.size() > PreTokenCache::kBytesMax) return EncodeUncached(pre_token, ids);
  PreTokenCache::Entry& entry = ThreadCache().At(serial_, pre_token);
  if (entry.serial == serial_ && entry.length == pre_token.size() &&
      std::memcmp(entry.bytes.data(), pre_token.data(), pre_token.size()) == 0) {
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return;
  }
  const size_t begin = ids.size();
  EncodeUncached(pre_token, ids);
  const size_t count = ids.size() - begin;
  if (count > PreTokenCache::kIdsMax) return;
  entry.serial = serial_;
  entry.length = static_cast<uint8_t>(pre_token.size());
  entry.count = static_cast<uint8_t>(count);
  std::copy(pre_token.begin(), pre_token.end(), entry.bytes.begin());
  std::copy(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end(), entry.ids.begin());
}

void Bpe::EncodeUncached(std::string_view pre_token, std::vector<TokenId>& ids) const {
  if (vocabulary_.ignore_merges) {
    const auto whole = vocabulary_.ids.find(std::string(pre_token));
    if (whole != vocabulary_.ids.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  const size_t begin = ids.size();
  bool after_unknown = false;
  for (const char byte : pre_token) {
    const TokenId id = vocabulary_.byte_ids[static_cast<uint8_t>(byte)];
    if (id >= 0) {
      ids.push_back(id);
    } else if (vocabulary_.unknown_id >= 0 && !(vocabulary_.fuse_unknown && after_unknown)) {
      ids.push_back(vocabulary_.unknown_id);
    }
    after_unknown = id < 0;
  }
  const size_t count = ids.size() - begin;
  if (count < 2) return;
  if (count <= kLinearMax) return MergeLinear(merges_, ids, begin);
  const std::vector<TokenId> symbols(ids.begin() + static_cast<ptrdiff_t>(begin), ids.end());
  QueueMerger(merges_, symbols).Run(ids, begin);
}

}  // namespace tidemill
