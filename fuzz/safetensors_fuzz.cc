// A safetensors file. Every byte of every tensor that is given out must be there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto header = tidemill::ParseSafetensors(input, "fuzz");
  if (!header.ok()) return 0;
  size_t total = 0;
  unsigned sum = 0;
  for (const tidemill::TensorView& tensor : header->tensors) {
    for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    total += tensor.bytes;
  }
  if (total > size || sum > 255u * size) std::abort();
  return 0;
}
