// Tensors by name, and their way into and out of safetensors files.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "core/status.h"
#include "model/safetensors.h"

namespace tidemill {

using NamedTensors = std::map<std::string, at::Tensor>;

// kInvalid: a type libtorch has no place for here (F32, BF16, F16, F64, I16, I32, I64 and U8 have).
Result<at::ScalarType> ToScalarType(Dtype dtype);
Result<Dtype> ToDtype(at::ScalarType type);

// Copies on the same devices, of the same types.
NamedTensors Clones(const NamedTensors& tensors);

// A copy of the view's bytes as a tensor on the CPU.
Result<at::Tensor> CopyToTensor(const TensorView& view);
// The whole of one .safetensors file, copied.
Result<NamedTensors> ReadTensors(const std::string& path);
// Writes one file atomically; tensors may be on any device.
Status WriteTensors(const std::string& path, const NamedTensors& tensors,
                    const TensorMetadata& metadata = {{"format", "pt"}});

// Contiguous copies on the CPU with the views that describe them, for a writer.
struct HostTensors {
  NamedTensors tensors;
  std::vector<TensorView> views;
};
Result<HostTensors> ToHost(const NamedTensors& tensors);

}  // namespace tidemill
