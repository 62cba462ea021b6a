#include "weights/weight_check.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace tidemill {
namespace {

// Whether a number has an exponent of ones only: an infinity or a NaN. The data may lie anywhere.
template <typename Bits>
bool AnyNotFinite(const TensorView& tensor, Bits exponent) {
  constexpr size_t kPiece = 4096;
  Bits piece[kPiece / sizeof(Bits)];
  for (size_t at = 0; at + sizeof(Bits) <= tensor.bytes;) {
    const size_t bytes = std::min(kPiece, tensor.bytes - at) / sizeof(Bits) * sizeof(Bits);
    std::memcpy(piece, tensor.data + at, bytes);
    unsigned found = 0;
    for (size_t i = 0; i < bytes / sizeof(Bits); ++i) found |= (piece[i] & exponent) == exponent;
    if (found != 0) return true;
    at += bytes;
  }
  return false;
}

}  // namespace

Status CheckFinite(const TensorView& tensor) {
  bool wrong = false;
  switch (tensor.dtype) {
    case Dtype::kF64:
      wrong = AnyNotFinite<uint64_t>(tensor, 0x7ff0000000000000u);
      break;
    case Dtype::kF32:
      wrong = AnyNotFinite<uint32_t>(tensor, 0x7f800000u);
      break;
    case Dtype::kBF16:
      wrong = AnyNotFinite<uint16_t>(tensor, 0x7f80u);
      break;
    case Dtype::kF16:
      wrong = AnyNotFinite<uint16_t>(tensor, 0x7c00u);
      break;
    default:
      break;
  }
  return wrong ? Corrupt("tensor " + tensor.name + " has numbers that are not finite") : Ok();
}

Status CheckWeightBytes(size_t bytes) {
  const auto memory =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return Ok();
  return Invalid(std::to_string(bytes) + " bytes of weights; this machine has " +
                 std::to_string(memory) + " bytes of memory");
}

}  // namespace tidemill
