#include "engine/constraint/token_mask.h"

#include <algorithm>
#include <bit>

#include "core/status.h"
#include "core/token_support.h"

namespace tidemill {
namespace {

constexpr size_t kWordsOfARank = 8;

}  // namespace

TokenMask::TokenMask(std::vector<uint64_t> bits) : bits_(std::move(bits)) {
  for (size_t i = 0; i < bits_.size(); ++i) {
    if (i % kWordsOfARank == 0) ranks_.push_back(static_cast<uint32_t>(count_));
    count_ += static_cast<size_t>(std::popcount(bits_[i]));
  }
  if (count_ <= kFew) {
    std::vector<TokenId> ids;
    AppendIds(static_cast<int32_t>(bits_.size() * 64), ids);
    few_ = std::move(ids);
    bits_.clear();
    ranks_.clear();
  }
}

TokenMask::TokenMask(std::vector<TokenId> ids) : few_(std::move(ids)), count_(few_.size()) {
  std::sort(few_.begin(), few_.end());
}

const std::string& TokenMask::support() const {
  std::call_once(described_, [this] {
    std::vector<TokenId> ids;
    AppendIds(INT32_MAX, ids);
    support_ = EncodeSupport(ids);
  });
  return support_;
}

bool TokenMask::Allows(TokenId id) const {
  if (id < 0) return false;
  if (bits_.empty()) return std::binary_search(few_.begin(), few_.end(), id);
  const auto at = static_cast<size_t>(id);
  return at / 64 < bits_.size() && (bits_[at / 64] >> (at % 64) & 1) != 0;
}

void TokenMask::AppendIds(int32_t vocabulary, std::vector<TokenId>& ids) const {
  for (const TokenId id : few_) {
    if (id < vocabulary) ids.push_back(id);
  }
  for (size_t i = 0; i < bits_.size(); ++i) {
    for (uint64_t word = bits_[i]; word != 0; word &= word - 1) {
      const auto id = static_cast<TokenId>(i * 64 + static_cast<size_t>(std::countr_zero(word)));
      if (id < vocabulary) ids.push_back(id);
    }
  }
}

void TokenMask::Gather(std::span<const float> logits, std::vector<float>& gathered) const {
  gathered.clear();
  for (const TokenId id : few_) gathered.push_back(logits[static_cast<size_t>(id)]);
  if (bits_.empty()) return;
  gathered.resize(count_);
  float* to = gathered.data();
  for (size_t i = 0; i < bits_.size(); ++i) {
    const float* from = logits.data() + i * 64;
    if (bits_[i] == ~uint64_t{0}) {
      to = std::copy_n(from, 64, to);
      continue;
    }
    for (uint64_t word = bits_[i]; word != 0; word &= word - 1) {
      *to++ = from[std::countr_zero(word)];
    }
  }
}

TokenId TokenMask::At(size_t place) const {
  TM_CHECK(place < count_, "a place among the ids of the set");
  if (bits_.empty()) return few_[place];
  const auto behind = std::upper_bound(ranks_.begin(), ranks_.end(), place);
  size_t word = static_cast<size_t>(behind - ranks_.begin() - 1) * kWordsOfARank;
  size_t left = place - ranks_[word / kWordsOfARank];
  while (left >= static_cast<size_t>(std::popcount(bits_[word]))) {
    left -= static_cast<size_t>(std::popcount(bits_[word++]));
  }
  uint64_t rest = bits_[word];
  for (; left > 0; --left) rest &= rest - 1;
  return static_cast<TokenId>(word * 64 + static_cast<size_t>(std::countr_zero(rest)));
}

void TokenMask::FillWords(std::span<uint32_t> words) const {
  std::fill(words.begin(), words.end(), 0u);
  for (const TokenId id : few_) {
    const auto at = static_cast<size_t>(id);
    if (at / 32 < words.size()) words[at / 32] |= 1u << (at % 32);
  }
  for (size_t i = 0; i < bits_.size(); ++i) {
    if (2 * i < words.size()) words[2 * i] = static_cast<uint32_t>(bits_[i]);
    if (2 * i + 1 < words.size()) words[2 * i + 1] = static_cast<uint32_t>(bits_[i] >> 32);
  }
}

size_t TokenMask::bytes() const {
  return few_.size() * sizeof(TokenId) + bits_.size() * sizeof(uint64_t) +
         ranks_.size() * sizeof(uint32_t);
}

}  // namespace tidemill
