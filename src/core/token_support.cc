#include "core/token_support.h"

#include <algorithm>

#include "proto/tidemill.pb.h"

namespace tidemill {
namespace {

constexpr char kRunsForm = 'r';
constexpr char kBitsForm = 'b';
// Constraints come back to the same sets; so many of the last ones are compared.
constexpr size_t kSetsCompared = 32;

void PutVarint(uint32_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

// -1: there is none, or it is over 31 bits.
int64_t TakeVarint(std::string_view& from) {
  uint64_t value = 0;
  for (int shift = 0; shift < 35 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value <= INT32_MAX ? static_cast<int64_t>(value) : -1;
  }
  return -1;
}

Result<std::vector<TokenRun>> ReadRuns(std::string_view bytes, int64_t vocabulary) {
  std::vector<TokenRun> runs;
  int64_t at = 0;
  while (!bytes.empty()) {
    const int64_t gap = TakeVarint(bytes), count = TakeVarint(bytes);
    if (gap < 0 || count < 1 || (gap == 0 && !runs.empty())) {
      return Invalid("a support has a run that is none");
    }
    at += gap;
    if (at + count > vocabulary) {
      return Invalid("a support has id " + std::to_string(at + count - 1) +
                     ", which is outside the vocabulary of " + std::to_string(vocabulary));
    }
    runs.push_back({static_cast<int32_t>(at), static_cast<int32_t>(count)});
    at += count;
  }
  return runs;
}

Result<std::vector<TokenRun>> ReadBits(std::string_view bytes, int64_t vocabulary) {
  if (!bytes.empty() && bytes.back() == 0) return Invalid("a support ends with a zero byte");
  std::vector<TokenRun> runs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    for (int bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1) == 0) continue;
      const int64_t id = static_cast<int64_t>(i) * 8 + bit;
      if (id >= vocabulary) {
        return Invalid("a support has id " + std::to_string(id) +
                       ", which is outside the vocabulary of " + std::to_string(vocabulary));
      }
      if (!runs.empty() && runs.back().first + runs.back().count == id) {
        ++runs.back().count;
      } else {
        runs.push_back({static_cast<int32_t>(id), 1});
      }
    }
  }
  return runs;
}

}  // namespace

std::string EncodeSupport(std::span<const int32_t> ids) {
  TM_CHECK(!ids.empty() && ids.front() >= 0, "a token is drawn from at least one");
  const size_t bits_size = static_cast<size_t>(ids.back()) / 8 + 1;
  std::string runs(1, kRunsForm);
  int32_t behind = 0;
  for (size_t i = 0; i < ids.size() && runs.size() <= bits_size;) {
    size_t end = i + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    PutVarint(static_cast<uint32_t>(ids[i] - behind), runs);
    PutVarint(static_cast<uint32_t>(end - i), runs);
    behind = ids[end - 1] + 1;
    i = end;
  }
  if (runs.size() <= bits_size) return runs;
  std::string bits(1 + bits_size, '\0');
  bits[0] = kBitsForm;
  for (const int32_t id : ids) {
    char& byte = bits[1 + static_cast<size_t>(id) / 8];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | 1u << (id % 8));
  }
  return bits;
}

Result<std::vector<TokenRun>> DecodeSupport(std::string_view support, int64_t vocabulary) {
  if (support.empty()) return Invalid("a support is empty");
  const std::string_view rest = support.substr(1);
  if (support[0] != kRunsForm && support[0] != kBitsForm) {
    return Invalid("a support begins with neither \"r\" nor \"b\"");
  }
  auto runs = support[0] == kRunsForm ? ReadRuns(rest, vocabulary) : ReadBits(rest, vocabulary);
  if (runs.ok() && runs->empty()) return Invalid("a support has no token");
  return runs;
}

bool InRuns(std::span<const TokenRun> runs, int32_t id) {
  const auto behind = std::upper_bound(runs.begin(), runs.end(), id,
                                       [](int32_t i, const TokenRun& r) { return i < r.first; });
  if (behind == runs.begin()) return false;
  const TokenRun& run = *std::prev(behind);
  return id - run.first < run.count;
}

void TokenSupports::Add(std::string support) {
  const size_t oldest = sets.size() - std::min(sets.size(), kSetsCompared);
  for (size_t i = sets.size(); i > oldest; --i) {
    if (sets[i - 1] != support) continue;
    return set_of.push_back(static_cast<uint32_t>(i - 1));
  }
  set_of.push_back(static_cast<uint32_t>(sets.size()));
  sets.push_back(std::move(support));
}

void TokenSupports::Append(const TokenSupports& more) {
  for (const uint32_t set : more.set_of) Add(more.sets[set]);
}

void FillSupports(const TokenSupports& from, uint32_t skip, v1::TokenSupports& to) {
  TokenSupports kept;
  for (size_t i = skip; i < from.set_of.size(); ++i) kept.Add(from.sets[from.set_of[i]]);
  for (std::string& set : kept.sets) to.add_sets(std::move(set));
  to.mutable_set_of()->Add(kept.set_of.begin(), kept.set_of.end());
}

void FillSupports(const v1::TokenSupports& from, uint32_t skip, v1::TokenSupports& to) {
  TokenSupports all;
  all.sets.assign(from.sets().begin(), from.sets().end());
  all.set_of.assign(from.set_of().begin(), from.set_of().end());
  FillSupports(all, skip, to);
}

Status CheckSupports(const v1::TokenSupports& supports, std::span<const uint32_t> ids,
                     int64_t vocabulary) {
  if (static_cast<size_t>(supports.set_of_size()) != ids.size()) {
    return Invalid("supports: " + std::to_string(supports.set_of_size()) + " for " +
                   std::to_string(ids.size()) + " ids");
  }
  std::vector<size_t> order(ids.size());  // by set: one at a time is decoded
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto set_of = [&](size_t i) { return supports.set_of(static_cast<int>(i)); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return set_of(a) < set_of(b); });
  size_t at = 0;
  for (int set = 0; set < supports.sets_size(); ++set) {
    auto runs = DecodeSupport(supports.sets(set), vocabulary);
    if (!runs.ok()) return runs.status().WithContext("supports");
    for (; at < order.size() && set_of(order[at]) == static_cast<uint32_t>(set); ++at) {
      const uint32_t id = ids[order[at]];
      if (InRuns(*runs, static_cast<int32_t>(id))) continue;
      return Invalid("supports: id " + std::to_string(id) +
                     " is not among those that it was drawn from");
    }
  }
  if (at == order.size()) return Ok();
  return Invalid("supports: set " + std::to_string(set_of(order[at])) + " of " +
                 std::to_string(supports.sets_size()));
}

}  // namespace tidemill
