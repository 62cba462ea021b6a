// The element types of GGUF's tensors and how their blocks become numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tidemill {

// Those that are read; the values are the format's.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

// A tensor's row is a whole number of blocks.
struct GgmlBlock {
  size_t elements = 1;
  size_t bytes = 4;
};

// The format's name of any type it has ever had ("IQ2_XS"), for messages; "type 99" is unknown:
// empty.
std::string_view GgmlTypeName(uint32_t type);
// Nothing: the type cannot be read.
std::optional<GgmlType> ReadableGgmlType(uint32_t type);
GgmlBlock GgmlBlockOf(GgmlType type);

// `blocks` holds exactly out.size() elements: whole blocks, CHECKed.
void Dequantise(GgmlType type, std::string_view blocks, std::span<float> out);

// Rounds to nearest, ties to even; a NaN stays one.
uint16_t ToBfloat16(float value);

}  // namespace tidemill
