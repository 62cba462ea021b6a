// Plain arithmetic without branches or calls, which compilers turn into vector instructions. No
// multiplication is fused with a sum (see the compile options), so results do not depend on the
// machine.
#include "model/normal_stream.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/random.h"
#include "core/status.h"

namespace tidemill {
namespace {

constexpr size_t kBlock = 64;  // counters at a time
constexpr float kTo24 = 1.0f / 16777216.0f;
constexpr float kTo22 = 1.0f / 4194304.0f;

// The natural logarithm of (word / 2^8 + 1) / 2^24, which is above 0 and at most 1.
inline float LogOfWord(uint32_t word) {
  const float u = (static_cast<float>(static_cast<int32_t>(word >> 8)) + 1.0f) * kTo24;
  const uint32_t bits = std::bit_cast<uint32_t>(u);
  // u = m 2^e with m from √½ to √2.
  const uint32_t shifted = bits - 0x3f3504f3u;
  const int32_t e = static_cast<int32_t>(shifted) >> 23;
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u);
  // ln m = 2 artanh(t); the next term of the series is below 1e-9.
  const float t = (m - 1.0f) / (m + 1.0f);
  const float tt = t * t;
  const float series =
      1.0f + tt * (0.333333333f + tt * (0.2f + tt * (0.142857143f + tt * 0.111111111f)));
  return static_cast<float>(e) * 0.693147181f + 2.0f * t * series;
}

inline float WithSign(float value, uint32_t sign) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ (sign << 31));
}

// Two normal numbers of two words (Box and Muller): a radius, and a direction that is a quarter
// turn by the upper two bits and an angle of at most an eighth of a turn either way.
inline void TwoNormals(uint32_t radius, uint32_t direction, float sigma, float& a, float& b) {
  const float r = sigma * std::sqrt(-2.0f * LogOfWord(radius));
  const float part = static_cast<float>(static_cast<int32_t>((direction >> 8) & 0x3fffffu)) * kTo22;
  const float x = (part - 0.5f) * 1.57079633f;
  const float xx = x * x;
  const float sine =
      x * (1.0f - xx * (0.166666667f - xx * (0.00833333333f - xx * 0.000198412698f)));
  const float cosine =
      1.0f - xx * (0.5f - xx * (0.0416666667f - xx * (0.00138888889f - xx * 0.0000248015873f)));
  const uint32_t turns = direction >> 30;
  const uint32_t odd = 0u - (turns & 1u);
  const uint32_t s = std::bit_cast<uint32_t>(sine), c = std::bit_cast<uint32_t>(cosine);
  const float across = std::bit_cast<float>((s & odd) | (c & ~odd));
  const float along = std::bit_cast<float>((c & odd) | (s & ~odd));
  a = r * WithSign(across, ((turns + 1) >> 1) & 1u);
  b = r * WithSign(along, turns >> 1);
}

struct Words {
  uint32_t w[4][kBlock];
};

// Philox of the counters `first`, `first` + 1, ..
void PhiloxBlock(uint64_t first, PhiloxKey key, Words& words) {
  for (size_t i = 0; i < kBlock; ++i) {
    words.w[0][i] = static_cast<uint32_t>(first + i);
    words.w[1][i] = static_cast<uint32_t>((first + i) >> 32);
    words.w[2][i] = words.w[3][i] = 0;
  }
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kBlock; ++i) {
      const uint64_t p = uint64_t{0xD2511F53} * words.w[0][i];
      const uint64_t q = uint64_t{0xCD9E8D57} * words.w[2][i];
      words.w[0][i] = static_cast<uint32_t>(q >> 32) ^ words.w[1][i] ^ key[0];
      words.w[2][i] = static_cast<uint32_t>(p >> 32) ^ words.w[3][i] ^ key[1];
      words.w[1][i] = static_cast<uint32_t>(q);
      words.w[3][i] = static_cast<uint32_t>(p);
    }
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
}

}  // namespace

PhiloxCounter Philox(PhiloxCounter c, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xD2511F53} * c[0];
    const uint64_t q = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(q >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(q),
         static_cast<uint32_t>(p >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

NormalStream::NormalStream(uint64_t seed, std::string_view label) {
  const uint64_t mixed = MixHash(seed, StableHash(label));
  key_ = {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
}

void NormalStream::Fill(uint64_t first, float sigma, std::span<float> out) const {
  TM_CHECK(first % 4 == 0, "parts of a stream begin at a multiple of 4");
  Words words;
  float drawn[4][kBlock];
  for (size_t at = 0; at < out.size(); at += 4 * kBlock) {
    PhiloxBlock((first + at) / 4, key_, words);
    for (size_t i = 0; i < kBlock; ++i) {
      TwoNormals(words.w[0][i], words.w[1][i], sigma, drawn[0][i], drawn[1][i]);
      TwoNormals(words.w[2][i], words.w[3][i], sigma, drawn[2][i], drawn[3][i]);
    }
    const size_t count = std::min(4 * kBlock, out.size() - at);
    for (size_t i = 0; i < count; ++i) out[at + i] = drawn[i % 4][i / 4];
  }
}

}  // namespace tidemill
