#include "model/random_weights.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/files.h"
#include "core/parallel.h"
#include "model/expected_tensors.h"
#include "model/families/family_spec.h"
#include "model/normal_stream.h"
#include "model/number_types.h"

namespace tidemill {
namespace {

constexpr size_t kRandomPartBytes = size_t{4} << 20;

void FillConstant(float value, const TensorView& tensor, std::span<std::byte> out) {
  const size_t size = DtypeSize(tensor.dtype);
  for (size_t at = 0; at < out.size(); at += size) {
    FromFloat32(&value, 1, tensor.dtype, out.data() + at);
  }
}

}  // namespace

void FillRandomPart(const ModelConfig& config, uint64_t seed, const TensorView& tensor,
                    size_t first_byte, std::span<std::byte> out) {
  if (tensor.name.ends_with("norm.weight")) {
    // The factors of norms begin as 1.
    return FillConstant(static_cast<float>(1 - SpecOf(config.family).norm_offset), tensor, out);
  }
  if (tensor.name.ends_with("bias")) return FillConstant(0, tensor, out);
  const NormalStream stream(seed, tensor.name);
  const auto sigma = static_cast<float>(config.initializer_range);
  const size_t size = DtypeSize(tensor.dtype);
  std::array<float, 4096> drawn;
  const size_t first = first_byte / size, count = out.size() / size;
  for (size_t at = 0; at < count; at += drawn.size()) {
    const size_t now = std::min(drawn.size(), count - at);
    stream.Fill(first + at, sigma, std::span(drawn).first(now));
    FromFloat32(drawn.data(), now, tensor.dtype, out.data() + at * size);
  }
}

void FillRandomTensor(const ModelConfig& config, uint64_t seed, const TensorView& tensor,
                      int threads, std::span<std::byte> out) {
  const size_t pieces = (out.size() + kRandomPartBytes - 1) / kRandomPartBytes;
  const Status filled = InParallel(pieces, threads, [&](size_t piece) {
    const size_t first = piece * kRandomPartBytes;
    const size_t count = std::min(kRandomPartBytes, out.size() - first);
    FillRandomPart(config, seed, tensor, first, out.subspan(first, count));
    return Ok();
  });
  TM_CHECK(filled.ok(), filled.message());
}

Status WriteRandomModel(const ModelConfig& config, uint64_t seed, int threads,
                        const std::string& dir) {
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, "model"));
  TM_RETURN_IF_ERROR(MakeDirectories(dir));
  std::vector<TensorView> tensors;
  for (const auto& [name, shape] : ExpectedTensors(config)) {
    TensorView tensor{.name = name, .dtype = config.dtype, .shape = shape};
    tensor.bytes = DtypeSize(config.dtype);
    for (const int64_t n : shape) tensor.bytes *= static_cast<size_t>(n);
    tensors.push_back(std::move(tensor));
  }
  TM_RETURN_IF_ERROR(WriteModelTensorsInParts(
      dir, tensors,
      [&](const TensorView& tensor, size_t first_byte, std::span<std::byte> out) {
        FillRandomPart(config, seed, tensor, first_byte, out);
        return Ok();
      },
      threads));
  // The config last: a directory without it is not taken for a model.
  return WriteModelConfig(config, dir);
}

}  // namespace tidemill
