#include "core/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/status.h"

namespace tidemill {
namespace {

uint64_t SplitMix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) : seed_(seed) {
  uint64_t state = seed;
  for (uint64_t& word : words_) word = SplitMix(state);
}

Random Random::Split(std::string_view label) const {
  return Split(StableHash(label));
}

Random Random::Split(uint64_t label) const {
  return Random(MixHash(seed_, label));
}

uint64_t Random::Next() {
  const uint64_t result = std::rotl(words_[0] + words_[3], 23) + words_[0];
  const uint64_t t = words_[1] << 17;
  words_[2] ^= words_[0];
  words_[3] ^= words_[1];
  words_[1] ^= words_[2];
  words_[0] ^= words_[3];
  words_[2] ^= t;
  words_[3] = std::rotl(words_[3], 45);
  return result;
}

double Random::Uniform() {
  return static_cast<double>(Next() >> 11) * 0x1.0p-53;
}

uint64_t Random::Below(uint64_t n) {
  TM_CHECK(n > 0);
  const uint64_t unbiased = UINT64_MAX - UINT64_MAX % n;
  uint64_t x = Next();
  while (x >= unbiased) x = Next();
  return x % n;
}

int64_t Random::Between(int64_t low, int64_t high) {
  TM_CHECK(low <= high);
  return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
}

double Random::Normal() {
  const double u = 1.0 - Uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * Uniform());
}

double Random::LogNormal(double median, double sigma) {
  return median * std::exp(sigma * Normal());
}

double Random::Exponential(double mean) {
  return -mean * std::log(1.0 - Uniform());
}

Random::State Random::Save() const {
  return {seed_, {words_[0], words_[1], words_[2], words_[3]}};
}

Random Random::Restore(const State& state) {
  Random random(state.seed);
  for (int i = 0; i < 4; ++i) random.words_[i] = state.words[i];
  return random;
}

uint64_t StableHash(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
  return SplitMix(hash);
}

uint64_t MixHash(uint64_t a, uint64_t b) {
  uint64_t state = a ^ std::rotl(b, 32) ^ 0x6a09e667f3bcc909ULL;
  SplitMix(state);
  state ^= b;
  return SplitMix(state);
}

}  // namespace tidemill
