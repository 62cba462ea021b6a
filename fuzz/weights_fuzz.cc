// Weights on the wire: the bytes of a safetensors file, checked before they are used; and of a
// delta that is applied to a version of three tensors.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors.h"
#include "weights/weight_check.h"
#include "weights/weight_delta.h"

namespace {

std::string BaseVersion() {
  using namespace tidemill;  // NOLINT
  const std::vector<std::byte> bytes(70'000);
  const std::vector<TensorView> views = {
      {.name = "a",
       .dtype = Dtype::kBF16,
       .shape = {35'000},
       .data = bytes.data(),
       .bytes = 70'000},
      {.name = "b", .dtype = Dtype::kF32, .shape = {10}, .data = bytes.data(), .bytes = 40},
      {.name = "c", .dtype = Dtype::kU8, .shape = {3}, .data = bytes.data(), .bytes = 3}};
  const auto laid_out = LayOutSafetensors(views, {}, "base").value();
  std::string all;
  for (const std::string_view part : laid_out->parts) all += part;
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static const std::string base = BaseVersion();
  std::string out(base.size(), ' ');
  (void)ApplyDelta(base, input, reinterpret_cast<std::byte*>(out.data()));
  const auto header = ParseSafetensors(input, "fuzz");
  if (!header.ok()) return 0;
  for (const TensorView& tensor : header->tensors) (void)CheckFinite(tensor);
  return 0;
}
