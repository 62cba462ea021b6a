#include "memory/vector_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "core/random.h"

namespace tidemill {
namespace {

// So many more than asked for pass to the exact comparison.
constexpr size_t kSecondLook = 64;
constexpr size_t kBlock = 4096;

bool UnitOf(std::span<const float> vector, std::vector<float>& unit) {
  double square = 0;
  for (const float x : vector) square += double{x} * x;
  if (!(square > 0) || !std::isfinite(square)) return false;
  const double norm = 1 / std::sqrt(square);
  unit.resize(vector.size());
  for (size_t i = 0; i < vector.size(); ++i) unit[i] = static_cast<float>(vector[i] * norm);
  return true;
}

// The plain loop; the compiler makes the vector code of either machine from it.
template <typename Out>
[[gnu::always_inline]] inline void CompareAll(const int8_t* codes, size_t count,
                                              const int8_t* query, Out* out) {
  for (size_t i = 0; i < count; ++i) {
    const int8_t* code = codes + i * VectorIndex::kCodeBytes;
    int32_t sum = 0;
    for (size_t j = 0; j < VectorIndex::kCodeBytes; ++j) {
      sum += static_cast<int16_t>(code[j]) * static_cast<int16_t>(query[j]);
    }
    out[i] = sum;
  }
}

#if defined(__x86_64__)
// clang makes vectors of the loop at any level and does not know the attribute.
#if defined(__clang__)
[[gnu::target("avx2")]]
#else
[[gnu::target("avx2"), gnu::optimize("O3")]]
#endif
void CompareAvx2(const int8_t* codes, size_t count, const int8_t* query, int32_t* out) {
  CompareAll(codes, count, query, out);
}
#endif

void Compare(const int8_t* codes, size_t count, const int8_t* query, int32_t* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    CompareAvx2(codes, count, query, out);
    return;
  }
#endif
  CompareAll(codes, count, query, out);
}

}  // namespace

// Up to kCodeBytes numbers stand as they are; more are folded: each is added to or taken from the
// byte of its place, by the bits of a fixed hash.
void VectorIndex::Encode(std::span<const float> unit, int8_t* code) const {
  float folded[kCodeBytes] = {};
  for (size_t i = 0; i < unit.size(); ++i) {
    const bool minus = unit.size() > kCodeBytes && (MixHash(17, i) & 1) != 0;
    folded[i % kCodeBytes] += minus ? -unit[i] : unit[i];
  }
  float square = 0;
  for (const float x : folded) square += x * x;
  // One scale for all, so that sums compare. In long vectors a number over a half is cut, which the
  // second look makes good.
  const float one = unit.size() < 32 ? 127.0f : 254.0f;
  const float scale = square > 0 ? one / std::sqrt(square) : 0.0f;
  for (size_t j = 0; j < kCodeBytes; ++j) {
    code[j] = static_cast<int8_t>(std::clamp(std::lround(folded[j] * scale), -127l, 127l));
  }
}

bool VectorIndex::Add(uint64_t number, std::string_view scope, std::span<const float> vector) {
  std::vector<float> unit;
  if (vector.empty() || (length_ != 0 && vector.size() != length_) || places_.count(number) != 0 ||
      !UnitOf(vector, unit)) {
    return false;
  }
  length_ = vector.size();
  Scope& in = scopes_[std::string(scope)];
  places_[number] = {std::string(scope), in.numbers.size()};
  in.numbers.push_back(number);
  in.codes.resize(in.codes.size() + kCodeBytes);
  Encode(unit, in.codes.data() + in.codes.size() - kCodeBytes);
  in.vectors.insert(in.vectors.end(), unit.begin(), unit.end());
  return true;
}

// The last takes the place of the one removed.
void VectorIndex::Remove(uint64_t number) {
  const auto it = places_.find(number);
  if (it == places_.end()) return;
  const Place place = it->second;
  places_.erase(it);
  Scope& in = scopes_.at(place.scope);
  const size_t last = in.numbers.size() - 1;
  if (place.at != last) {
    in.numbers[place.at] = in.numbers[last];
    places_.at(in.numbers[last]).at = place.at;
    std::memcpy(&in.codes[place.at * kCodeBytes], &in.codes[last * kCodeBytes], kCodeBytes);
    std::copy_n(in.vectors.begin() + static_cast<std::ptrdiff_t>(last * length_), length_,
                in.vectors.begin() + static_cast<std::ptrdiff_t>(place.at * length_));
  }
  in.numbers.pop_back();
  in.codes.resize(last * kCodeBytes);
  in.vectors.resize(last * length_);
  if (in.numbers.empty()) scopes_.erase(place.scope);
}

std::vector<Match> VectorIndex::Search(std::string_view scope, std::span<const float> query,
                                       size_t most) const {
  const auto it = scopes_.find(std::string(scope));
  std::vector<float> unit;
  if (it == scopes_.end() || most == 0 || query.size() != length_ || !UnitOf(query, unit)) {
    return {};
  }
  const Scope& in = it->second;
  int8_t code[kCodeBytes];
  Encode(unit, code);
  // A heap of the best by bytes, the worst of them on top; in blocks, so that sums stay in the
  // cache.
  using Rough = std::pair<int32_t, uint32_t>;
  std::vector<Rough> best;
  const size_t looked = std::min(in.numbers.size(), most + kSecondLook);
  std::array<int32_t, kBlock> sums;
  for (size_t begin = 0; begin < in.numbers.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, in.numbers.size() - begin);
    Compare(&in.codes[begin * kCodeBytes], count, code, sums.data());
    for (size_t i = 0; i < count; ++i) {
      if (best.size() == looked && sums[i] <= best.front().first) continue;
      if (best.size() == looked) {
        std::pop_heap(best.begin(), best.end(), std::greater<>());
        best.pop_back();
      }
      best.emplace_back(sums[i], static_cast<uint32_t>(begin + i));
      std::push_heap(best.begin(), best.end(), std::greater<>());
    }
  }
  std::vector<Match> found;
  for (const auto& [sum, at] : best) {
    const float* vector = &in.vectors[at * length_];
    double cosine = 0;
    for (size_t j = 0; j < length_; ++j) cosine += double{unit[j]} * vector[j];
    found.push_back({in.numbers[at], cosine});
  }
  std::sort(found.begin(), found.end(), [](const Match& a, const Match& b) {
    return a.score != b.score ? a.score > b.score : a.number > b.number;
  });
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace tidemill
