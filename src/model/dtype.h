// The element types a model's files can hold, by the names safetensors and config.json give them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidemill {

enum class Dtype : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
};

// Bytes of one element.
size_t DtypeSize(Dtype dtype);
// "F32", "BF16", ..: the safetensors spelling.
std::string_view DtypeName(Dtype dtype);
std::optional<Dtype> DtypeFromName(std::string_view name);

}  // namespace tidemill
