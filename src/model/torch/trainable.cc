// TrainableModel: leaves made from weights, and weights made from them.
#include "model/torch/aten.h"

#include "model/torch/catch.h"
#ifdef TIDEMILL_CUDA
#include "model/torch/cuda_adapter.h"
#include "model/torch/cuda_leaves.h"
#include "model/torch/cuda_train.h"
#endif
#include "model/torch/device.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

at::Tensor Leaf(const at::Tensor& value) {
  at::Tensor leaf =
      at::empty(value.sizes(), value.options().dtype(at::kFloat)).copy_(value.detach());
  leaf.set_requires_grad(true);
  return leaf;
}

Status CheckExpertsOnCpu(const PolicyWeights& weights) {
  if (weights.config().experts.count == 0 || !OnGpu(weights.view().embed)) return Ok();
  return Invalid("experts are trained on a CPU only so far; this model has " +
                 std::to_string(weights.config().experts.count) + " a layer");
}

NamedTensors Copies(const NamedTensors& tensors, at::ScalarType type) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace(name, tensor.detach().to(type, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

}  // namespace

Result<std::unique_ptr<TrainableModel>> TrainableModel::FromWeights(const PolicyWeights& weights,
                                                                    bool narrow) {
  if (weights.adapter() != nullptr) {
    return Invalid("these weights carry an adapter; train the adapter, or merge it first");
  }
  TM_RETURN_IF_ERROR(CheckExpertsOnCpu(weights));
  using Made = std::unique_ptr<TrainableModel>;
  return CatchTorch<Made>("making a model to train", [&]() -> Result<Made> {
    Made model(new TrainableModel);
    model->config_ = weights.config();
    std::shared_ptr<const CudaLeaves> leaves;
#ifdef TIDEMILL_CUDA
    if (OnGpu(weights.view().embed)) {
      if (narrow && !CudaKernelsFit(model->config_)) {
        return Invalid(
            "weights in bfloat16 (learner.moments = int8 on a GPU) need heads of at "
            "most 256 in multiples of 8, a hidden size of at most 8192 and sizes in "
            "multiples of 4; use learner.moments = float32");
      }
      leaves = MakeCudaLeaves(model->config_, weights.tensors(), narrow);
      model->parameters_ = leaves->parameters;
    }
#endif
    if (leaves == nullptr) {
      if (narrow) return Invalid("weights are trained in bfloat16 on a GPU only");
      for (const auto& [name, tensor] : weights.tensors()) {
        model->parameters_.emplace(name, Leaf(tensor));
      }
    }
    TM_ASSIGN_OR_RETURN(model->view_, ArrangeTensors(model->config_, model->parameters_, nullptr));
    model->view_.leaves = std::move(leaves);
    return model;
  });
}

Result<std::unique_ptr<TrainableModel>> TrainableModel::FromAdapter(
    std::shared_ptr<const PolicyWeights> weights) {
  if (weights->adapter() == nullptr) return Invalid("these weights carry no adapter to train");
  TM_RETURN_IF_ERROR(CheckExpertsOnCpu(*weights));
  using Made = std::unique_ptr<TrainableModel>;
  return CatchTorch<Made>("making an adapter to train", [&]() -> Result<Made> {
    Made model(new TrainableModel);
    model->config_ = weights->config();
    // Without the adapter it had: the leaves are copies.
    TM_ASSIGN_OR_RETURN(model->base_, PolicyWeights::WithAdapter(weights, nullptr));
    std::shared_ptr<const CudaAdapter> blocks;
#ifdef TIDEMILL_CUDA
    if (OnGpu(weights->view().embed)) blocks = MakeCudaAdapter(*weights);
    if (blocks != nullptr) model->parameters_ = blocks->parameters;
#endif
    if (blocks == nullptr) {
      for (const auto& [name, tensor] : weights->adapter()->tensors) {
        model->parameters_.emplace(name, Leaf(tensor));
      }
    }
    model->adapter_ = std::make_shared<const LoraAdapter>(
        LoraAdapter{weights->adapter()->config, model->parameters_});
    TM_ASSIGN_OR_RETURN(model->view_,
                        ArrangeTensors(model->config_, weights->tensors(), model->adapter_.get()));
    model->view_.adapter = std::move(blocks);
    return model;
  });
}

at::Tensor TrainableModel::Forward(const PackedBatch& batch, std::optional<at::ScalarType> compute,
                                   bool recompute, RouterNotes* notes) const {
  return ForwardHidden(config_, view_, batch, compute, recompute, notes);
}

Result<std::shared_ptr<const PolicyWeights>> TrainableModel::Snapshot(Dtype dtype) const {
  TM_ASSIGN_OR_RETURN(const at::ScalarType type, ToScalarType(dtype));
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("copying the weights", [&]() -> Result<Made> {
    const at::NoGradGuard no_grad;
#ifdef TIDEMILL_CUDA
    if (view_.leaves != nullptr) {
      return PolicyWeights::FromTensors(config_, CopyLeaves(config_, *view_.leaves, type));
    }
#endif
    if (!lora()) return PolicyWeights::FromTensors(config_, Copies(parameters_, type));
    // Adapters stay float32: they are small, and what is learned is in them.
    NamedTensors copies;
#ifdef TIDEMILL_CUDA
    if (view_.adapter != nullptr) copies = view_.adapter->Copies();
#endif
    if (copies.empty()) copies = Copies(parameters_, at::kFloat);
    return PolicyWeights::WithAdapter(
        base_, std::make_shared<const LoraAdapter>(LoraAdapter{adapter_->config, copies}));
  });
}

Status TrainableModel::Restore(const NamedTensors& values) {
  if (values.size() != parameters_.size()) {
    return Invalid("the saved weights have " + std::to_string(values.size()) +
                   " tensors, the model " + std::to_string(parameters_.size()));
  }
  for (const auto& [name, parameter] : parameters_) {
    const auto value = values.find(name);
    if (value == values.end()) return Invalid("the saved weights lack \"" + name + "\"");
    if (value->second.sizes() != parameter.sizes()) {
      return Invalid("the saved \"" + name + "\" has a different shape");
    }
  }
  return CatchTorchStatus("restoring the weights", [&] {
    const at::NoGradGuard no_grad;
    for (auto& [name, parameter] : parameters_) parameter.copy_(values.at(name));
    return Ok();
  });
}

}  // namespace tidemill
