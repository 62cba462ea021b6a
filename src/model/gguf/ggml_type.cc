#include "model/gguf/ggml_type.h"

#include <array>
#include <bit>
#include <cstring>

#include "core/status.h"

namespace tidemill {
namespace {

constexpr std::array<std::string_view, 42> kGgmlNames = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0"};

constexpr size_t kSuper = 256;  // elements of a "K" block

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu;
  const uint32_t fraction = half & 0x3FFu;
  if (exponent == 0) {  // zero and the numbers below the normal ones
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

// Blocks lie unaligned in the file.
class BlockBytes {
 public:
  explicit BlockBytes(const char* at) : at_(reinterpret_cast<const uint8_t*>(at)) {}
  uint8_t operator[](size_t i) const { return at_[i]; }
  float Half(size_t i) const {
    uint16_t half = 0;
    std::memcpy(&half, at_ + i, sizeof(half));
    return HalfToFloat(half);
  }
  uint32_t Word(size_t i) const {
    uint32_t word = 0;
    std::memcpy(&word, at_ + i, sizeof(word));
    return word;
  }

 private:
  const uint8_t* at_;
};

void Q8_0(BlockBytes b, float* out) {
  const float d = b.Half(0);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}

// The low halves of 16 bytes are the first 16 numbers, the high halves the others.
void Q4_0(BlockBytes b, float* out) {
  const float d = b.Half(0);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

void Q4_1(BlockBytes b, float* out) {
  const float d = b.Half(0);
  const float m = b.Half(2);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(b[4 + i] & 15) + m;
    out[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + m;
  }
}

// As Q4 with a fifth bit of each number in one word in front.
int FifthBit(uint32_t word, size_t i) {
  return static_cast<int>((word >> i) & 1u) << 4;
}

void Q5_0(BlockBytes b, float* out) {
  const float d = b.Half(0);
  const uint32_t high = b.Word(2);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(((b[6 + i] & 15) | FifthBit(high, i)) - 16);
    out[i + 16] = d * static_cast<float>(((b[6 + i] >> 4) | FifthBit(high, i + 16)) - 16);
  }
}

void Q5_1(BlockBytes b, float* out) {
  const float d = b.Half(0);
  const float m = b.Half(2);
  const uint32_t high = b.Word(4);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((b[8 + i] & 15) | FifthBit(high, i)) + m;
    out[i + 16] = d * static_cast<float>((b[8 + i] >> 4) | FifthBit(high, i + 16)) + m;
  }
}

// The eight pairs of 6-bit scale and minimum in the 12 bytes of Q4_K and Q5_K.
struct ScaleAndMin {
  int scale;
  int min;
};
ScaleAndMin SixBits(BlockBytes b, size_t at, size_t j) {
  if (j < 4) return {b[at + j] & 63, b[at + j + 4] & 63};
  return {(b[at + j + 4] & 15) | ((b[at + j - 4] >> 6) << 4),
          (b[at + j + 4] >> 4) | ((b[at + j] >> 6) << 4)};
}

// Groups of 32 numbers; two groups share 32 bytes, low halves first.
void Q4_K(BlockBytes b, float* out) {
  const float d = b.Half(0);
  const float dmin = b.Half(2);
  for (size_t j = 0; j < 8; ++j) {
    const ScaleAndMin s = SixBits(b, 4, j);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    const size_t bytes = 16 + j / 2 * 32;
    for (size_t i = 0; i < 32; ++i) {
      const int q = j % 2 == 0 ? b[bytes + i] & 15 : b[bytes + i] >> 4;
      out[j * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

void Q5_K(BlockBytes b, float* out) {
  const float d = b.Half(0);
  const float dmin = b.Half(2);
  for (size_t j = 0; j < 8; ++j) {
    const ScaleAndMin s = SixBits(b, 4, j);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    const size_t bytes = 48 + j / 2 * 32;
    for (size_t i = 0; i < 32; ++i) {
      const int low = j % 2 == 0 ? b[bytes + i] & 15 : b[bytes + i] >> 4;
      const int q = low | (((b[16 + i] >> j) & 1) << 4);
      out[j * 32 + i] = scale * static_cast<float>(q) - min;
    }
  }
}

// Two halves of 128; in each, four quarters of 32 take 4 bits from one of two runs of 32 bytes and
// 2 bits from a third. One scale for 16 numbers.
void Q6_K(BlockBytes b, float* out) {
  const float d = b.Half(208);
  for (size_t half = 0; half < 2; ++half) {
    for (size_t quarter = 0; quarter < 4; ++quarter) {
      for (size_t i = 0; i < 32; ++i) {
        const uint8_t low = b[half * 64 + quarter % 2 * 32 + i];
        const int four = quarter < 2 ? low & 15 : low >> 4;
        const int two = (b[128 + half * 32 + i] >> (2 * quarter)) & 3;
        const auto scale = static_cast<int8_t>(b[192 + half * 8 + quarter * 2 + i / 16]);
        out[half * 128 + quarter * 32 + i] =
            d * static_cast<float>(scale) * static_cast<float>((four | (two << 4)) - 32);
      }
    }
  }
}

void OneHalf(BlockBytes b, float* out) {
  *out = b.Half(0);
}
void OneBfloat16(BlockBytes b, float* out) {
  *out =
      std::bit_cast<float>(static_cast<uint32_t>(b[0]) << 16 | static_cast<uint32_t>(b[1]) << 24);
}
void OneFloat(BlockBytes b, float* out) {
  *out = std::bit_cast<float>(b.Word(0));
}

struct GgmlLayout {
  GgmlBlock block;
  void (*read)(BlockBytes, float*);
};

GgmlLayout LayoutOf(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return {{1, 4}, OneFloat};
    case GgmlType::kF16:
      return {{1, 2}, OneHalf};
    case GgmlType::kBF16:
      return {{1, 2}, OneBfloat16};
    case GgmlType::kQ4_0:
      return {{32, 18}, Q4_0};
    case GgmlType::kQ4_1:
      return {{32, 20}, Q4_1};
    case GgmlType::kQ5_0:
      return {{32, 22}, Q5_0};
    case GgmlType::kQ5_1:
      return {{32, 24}, Q5_1};
    case GgmlType::kQ8_0:
      return {{32, 34}, Q8_0};
    case GgmlType::kQ4_K:
      return {{kSuper, 144}, Q4_K};
    case GgmlType::kQ5_K:
      return {{kSuper, 176}, Q5_K};
    case GgmlType::kQ6_K:
      return {{kSuper, 210}, Q6_K};
  }
  TM_CHECK(false, "a type without a layout");
  return {};
}

}  // namespace

std::string_view GgmlTypeName(uint32_t type) {
  return type < kGgmlNames.size() ? kGgmlNames[type] : std::string_view();
}

std::optional<GgmlType> ReadableGgmlType(uint32_t type) {
  for (const GgmlType known : {GgmlType::kF32, GgmlType::kF16, GgmlType::kQ4_0, GgmlType::kQ4_1,
                               GgmlType::kQ5_0, GgmlType::kQ5_1, GgmlType::kQ8_0, GgmlType::kQ4_K,
                               GgmlType::kQ5_K, GgmlType::kQ6_K, GgmlType::kBF16}) {
    if (type == static_cast<uint32_t>(known)) return known;
  }
  return std::nullopt;
}

GgmlBlock GgmlBlockOf(GgmlType type) {
  return LayoutOf(type).block;
}

void Dequantise(GgmlType type, std::string_view blocks, std::span<float> out) {
  const GgmlLayout layout = LayoutOf(type);
  const size_t count = out.size() / layout.block.elements;
  TM_CHECK(count * layout.block.elements == out.size() &&
           count * layout.block.bytes == blocks.size());
  for (size_t i = 0; i < count; ++i) {
    layout.read(BlockBytes(blocks.data() + i * layout.block.bytes),
                out.data() + i * layout.block.elements);
  }
}

uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace tidemill
