// Activation checkpointing: a part of a forward pass of which only the input is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace tidemill {

using ForwardPart = std::function<at::Tensor(const at::Tensor&)>;

// part(x). Nothing of what lies between is kept; the backward pass runs `part` again and adds to
// the gradients of the leaves it uses itself (so through backward(), not through grad()). What
// `part` refers to must stay as it is until then. Without gradients it is just part(x).
at::Tensor Recomputed(const at::Tensor& x, ForwardPart part);

}  // namespace tidemill
