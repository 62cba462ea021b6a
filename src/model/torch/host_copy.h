// Tensors between host and GPU without stopping anybody else.
//
// A copy between a GPU and ordinary (pageable) memory waits inside the driver for everything its
// stream has before it, and holds a lock of the driver meanwhile: the engine cannot launch a step
// until the learner's whole pass is done. Copies by way of pinned memory wait for the stream alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace tidemill {

// `tensor` in ordinary memory, contiguous, in `type`; returns when it is there. No copy where it is
// like that already.
at::Tensor HostCopy(const at::Tensor& tensor, at::ScalarType type);
at::Tensor HostCopy(const at::Tensor& tensor);

// An uninitialized vector of the host to be filled and handed to DeviceCopy.
at::Tensor HostVector(int64_t size, at::ScalarType type, const at::Device& device);
// On `device`. Does not wait where `host` came from HostVector.
at::Tensor DeviceCopy(const at::Tensor& host, const at::Device& device);

}  // namespace tidemill
