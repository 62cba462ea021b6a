#include "model/number_types.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/status.h"

namespace tidemill {
namespace {

inline float FromBf16(uint16_t value) {
  return std::bit_cast<float>(uint32_t{value} << 16);
}

inline uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>((nan ? bits | 0x00400000u : rounded) >> 16);
}

// A half's exponent and mantissa read as float32 are too small by 2^112; numbers without an
// exponent come out right as well, since the multiplication normalizes them.
inline float FromHalf(uint16_t value) {
  const uint32_t rest = uint32_t{value} & 0x7fffu;
  const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  const uint32_t infinite = rest >= 0x7c00u ? 0x7f800000u : 0u;
  const uint32_t sign = (uint32_t{value} & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | infinite | sign);
}

inline uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rest = bits & 0x7fffffffu;
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  if (rest > 0x7f800000u) return sign | 0x7e00u;
  if (rest >= 0x47800000u) return sign | 0x7c00u;
  if (rest < 0x38800000u) {
    // Below the smallest normal half: the sum rounds to multiples of 2^-24.
    const float sum = std::bit_cast<float>(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
  }
  const uint32_t rounded = rest + 0xfffu + ((rest >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

template <typename Number, typename Convert>
void Read(const std::byte* in, size_t count, float* out, Convert convert) {
  for (size_t i = 0; i < count; ++i) {
    Number number;
    std::memcpy(&number, in + i * sizeof(number), sizeof(number));
    out[i] = convert(number);
  }
}

template <typename Convert>
void WriteHalves(const float* in, size_t count, std::byte* out, Convert convert) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t number = convert(in[i]);
    std::memcpy(out + i * sizeof(number), &number, sizeof(number));
  }
}

}  // namespace

bool IsWeightType(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16;
}

void ToFloat32(Dtype from, const std::byte* in, size_t count, float* out) {
  TM_CHECK(IsWeightType(from), "a type that weights are stored in");
  if (from == Dtype::kF32) std::memcpy(out, in, count * sizeof(float));
  if (from == Dtype::kBF16) Read<uint16_t>(in, count, out, FromBf16);
  if (from == Dtype::kF16) Read<uint16_t>(in, count, out, FromHalf);
}

void FromFloat32(const float* in, size_t count, Dtype to, std::byte* out) {
  TM_CHECK(IsWeightType(to), "a type that weights are stored in");
  if (to == Dtype::kF32) std::memcpy(out, in, count * sizeof(float));
  if (to == Dtype::kBF16) WriteHalves(in, count, out, ToBf16);
  if (to == Dtype::kF16) WriteHalves(in, count, out, ToHalf);
}

}  // namespace tidemill
