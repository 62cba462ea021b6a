#include "model/torch/named_tensors.h"

#include "model/torch/aten.h"

#include <cstring>

#include "model/torch/catch.h"
#include "model/torch/host_copy.h"

namespace tidemill {

Result<at::ScalarType> ToScalarType(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return at::kDouble;
    case Dtype::kF32:
      return at::kFloat;
    case Dtype::kF16:
      return at::kHalf;
    case Dtype::kBF16:
      return at::kBFloat16;
    case Dtype::kI64:
      return at::kLong;
    case Dtype::kI32:
      return at::kInt;
    case Dtype::kU8:
      return at::kByte;
    default:
      return Invalid("tensors of type " + std::string(DtypeName(dtype)) + " are not supported");
  }
}

Result<Dtype> ToDtype(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return Dtype::kF64;
    case at::kFloat:
      return Dtype::kF32;
    case at::kHalf:
      return Dtype::kF16;
    case at::kBFloat16:
      return Dtype::kBF16;
    case at::kLong:
      return Dtype::kI64;
    case at::kInt:
      return Dtype::kI32;
    case at::kByte:
      return Dtype::kU8;
    default:
      return Invalid(std::string("tensors of type ") + c10::toString(type) + " cannot be stored");
  }
}

NamedTensors Clones(const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  NamedTensors clones;
  std::vector<at::Tensor> from, to;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor clone = at::empty_like(tensor, tensor.options().requires_grad(false));
    clones.emplace(name, clone);
    from.push_back(tensor.detach());
    to.push_back(clone);
  }
#if defined(TIDEMILL_CUDA) && !defined(TIDEMILL_CUDA_HOST)
  if (!to.empty()) at::_foreach_copy_(to, from);  // on a GPU a few kernels for all
#else
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
#endif
  return clones;
}

Result<at::Tensor> CopyToTensor(const TensorView& view) {
  const Result<at::ScalarType> type = ToScalarType(view.dtype);
  if (!type.ok()) return type.status().WithContext(view.name);
  return CatchTorch<at::Tensor>(view.name, [&]() -> Result<at::Tensor> {
    at::Tensor tensor = at::empty(view.shape, at::TensorOptions().dtype(*type));
    if (view.bytes > 0) std::memcpy(tensor.data_ptr(), view.data, view.bytes);
    return tensor;
  });
}

Result<NamedTensors> ReadTensors(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const TensorFiles file, TensorFiles::Open(path));
  NamedTensors tensors;
  for (const TensorView& view : file.tensors()) {
    Result<at::Tensor> tensor = CopyToTensor(view);
    if (!tensor.ok()) return tensor.status().WithContext(path);
    tensors.emplace(view.name, *std::move(tensor));
  }
  return tensors;
}

Result<HostTensors> ToHost(const NamedTensors& tensors) {
  return CatchTorch<HostTensors>("copying tensors", [&]() -> Result<HostTensors> {
    HostTensors host;
    for (const auto& [name, tensor] : tensors) {
      const Result<Dtype> dtype = ToDtype(tensor.scalar_type());
      if (!dtype.ok()) return dtype.status().WithContext(name);
      const at::Tensor copy = HostCopy(tensor);
      host.views.push_back({.name = name,
                            .dtype = *dtype,
                            .shape = copy.sizes().vec(),
                            .data = static_cast<const std::byte*>(copy.data_ptr()),
                            .bytes = copy.nbytes()});
      host.tensors.emplace(name, copy);
    }
    return host;
  });
}

Status WriteTensors(const std::string& path, const NamedTensors& tensors,
                    const TensorMetadata& metadata) {
  TM_ASSIGN_OR_RETURN(const HostTensors host, ToHost(tensors));
  return WriteSafetensors(path, host.views, metadata);
}

}  // namespace tidemill
