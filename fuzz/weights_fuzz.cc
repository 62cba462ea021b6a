// Weights on the wire: the bytes of a safetensors file, checked before they are used.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/safetensors.h"
#include "weights/weight_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const auto header =
      ParseSafetensors(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!header.ok()) return 0;
  for (const TensorView& tensor : header->tensors) (void)CheckFinite(tensor);
  return 0;
}
