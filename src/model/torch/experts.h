// The feed-forward part of a layer with experts (ExpertPlan), differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/layer_plan.h"
#include "model/torch/model.h"

namespace tidemill {

struct ExpertInput {
  at::Tensor x;      // [n, hidden]
  at::Tensor given;  // int64 [n, chosen]: the experts of each row; -1: the router chooses; or none
  bool replay = true;  // false: it chooses anyway
};

// [n, hidden] in the type of x. What the router says goes behind `notes`, unless it is null.
at::Tensor RunExperts(Activation activation, const ExpertPlan& plan, const ExpertTensors& tensors,
                      const ExpertInput& input, RouterNotes* notes);

}  // namespace tidemill
