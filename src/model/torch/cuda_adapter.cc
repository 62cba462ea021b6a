#ifdef TIDEMILL_CUDA

#include "model/torch/cuda_adapter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "model/torch/gpu_products.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/held.h"
#include "model/torch/weight_block.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPartAlignment = 64;  // numbers: 128 bytes or more

// Keeps x and x Aᵀ for the backward pass.
class AdaptedFunction : public torch::autograd::Function<AdaptedFunction> {
 public:
  // `always` asks for a gradient, so that the result does even where x does not.
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& always,
                        const std::shared_ptr<const AdaptedProduct>& product) {
    static_cast<void>(always);
    const Tensor y = LinearProduct(x, product->weight, product->bias);
    const Tensor low = LinearProduct(x, product->a);
    for (const AdaptedProduct::Part& part : product->parts) {
      AddLowProduct(Low(low, part), part.b.t(), Out(y, part));
    }
    ctx->save_for_backward({x, low});
    ctx->saved_data["x_gradient"] = x.requires_grad();
    Hold(ctx, "product", product);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto product = TakeHeld<AdaptedProduct>(ctx, "product");
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &low = saved[1];
    const Tensor dy = grads[0].contiguous();
    const Tensor dlow = at::empty_like(low);
    for (const AdaptedProduct::Part& part : product->parts) {
      const Tensor dout = Out(dy, part);
      LowProductInto(dout, part.b, Low(dlow, part));
      AddProduct(dout, Low(low, part) * part.scale, part.b_gradient);
    }
    AddProduct(dlow, x, product->a_gradient);
    if (!ctx->saved_data["x_gradient"].toBool()) return {Tensor(), Tensor(), Tensor()};
    const Tensor dx = LowProduct(dy, product->weight);
    AddLowProduct(dlow, product->a, dx);
    return {dx, Tensor(), Tensor()};
  }

 private:
  static Tensor Low(const Tensor& low, const AdaptedProduct::Part& part) {
    return low.narrow(1, part.first_low, part.b.size(1));
  }
  static Tensor Out(const Tensor& y, const AdaptedProduct::Part& part) {
    return y.narrow(1, part.first_out, part.b.size(0));
  }
};

// y = x Wᵀ + b of frozen weights: nothing is kept for the backward pass.
class FrozenBlockFunction : public torch::autograd::Function<FrozenBlockFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x,
                        const std::shared_ptr<const AdaptedProduct>& product) {
    Hold(ctx, "product", product);
    return LinearProduct(x, product->weight, product->bias);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto product = TakeHeld<AdaptedProduct>(ctx, "product");
    return {LowProduct(grads[0].contiguous(), product->weight), Tensor()};
  }
};

// Rows of the frozen block that several layers have together.
Tensor FrozenRows(const PolicyWeights& weights, const std::vector<std::string>& names) {
  std::vector<int64_t> shape = weights.tensors().at(names.front()).sizes().vec();
  for (size_t i = 1; i < names.size(); ++i) shape[0] += weights.tensors().at(names[i]).size(0);
  std::vector<int64_t> strides(shape.size(), 1);
  if (shape.size() == 2) strides[0] = shape[1];
  return weights.tensors().at(names.front()).detach().as_strided(shape, strides);
}

// Gives every tensor of an adapter its place, first all A, then all B.
class AdapterMaker {
 public:
  explicit AdapterMaker(const PolicyWeights& weights)
      : weights_(weights), adapter_(*weights.adapter()), made_(std::make_shared<CudaAdapter>()) {}

  std::shared_ptr<const CudaAdapter> Make() {
    const at::NoGradGuard no_grad;
    Place(".lora_A.weight", true);
    made_->first_b = numbers_;
    Place(".lora_B.weight", false);
    const auto options = weights_.view().embed.options().dtype(at::kFloat).requires_grad(false);
    made_->values = at::zeros({numbers_}, options);
    made_->gradients = at::zeros({numbers_}, options);
    made_->low = at::zeros({numbers_}, options.dtype(at::kBFloat16));
    for (const auto& [name, first] : places_) {
      const Tensor& from = adapter_.tensors.at(name);
      Tensor value = Part(made_->values, first, from.sizes());
      value.copy_(from.detach());
      Tensor leaf = value.detach().set_requires_grad(true);
      leaf.mutable_grad() = Part(made_->gradients, first, from.sizes());
      made_->parameters.emplace(name, leaf);
    }
    for (int64_t layer = 0; layer < weights_.config().num_layers; ++layer) MakeLayer(layer);
    return made_;
  }

 private:
  static Tensor Part(const Tensor& block, int64_t first, at::IntArrayRef shape) {
    return block.narrow(0, first, c10::multiply_integers(shape)).view(shape);
  }
  void Align() { numbers_ = (numbers_ + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

  // Those of modules that have the same input one right behind the other where they are `stacked`.
  void Place(const char* kind, bool stacked) {
    for (int64_t layer = 0; layer < weights_.config().num_layers; ++layer) {
      for (size_t i = 0; i < kLayerModules.size(); ++i) {
        const bool begins = i == 0 || kLayerModules[i].product != kLayerModules[i - 1].product;
        if (begins || !stacked) Align();
        const std::string name = ModuleName(layer, i) + kind;
        const auto found = adapter_.tensors.find(name);
        if (found == adapter_.tensors.end()) continue;
        places_[name] = numbers_;
        numbers_ += found->second.numel();
      }
    }
    Align();
  }

  void MakeLayer(int64_t layer) {
    made_->layers.emplace_back();
    std::array<AdaptedProduct, kLayerProducts>& products = made_->layers.back().products;
    std::array<std::vector<std::string>, kLayerProducts> weights, biases;
    std::array<int64_t, kLayerProducts> outs{};
    for (size_t i = 0; i < kLayerModules.size(); ++i) {
      const auto p = static_cast<size_t>(kLayerModules[i].product);
      const std::string name = ModuleName(layer, i);
      AddPart(name, outs[p], products[p]);
      outs[p] += weights_.tensors().at(name + ".weight").size(0);
      weights[p].push_back(name + ".weight");
      if (weights_.tensors().contains(name + ".bias")) biases[p].push_back(name + ".bias");
    }
    for (size_t p = 0; p < kLayerProducts; ++p) {
      products[p].weight = FrozenRows(weights_, weights[p]);
      if (!biases[p].empty()) products[p].bias = FrozenRows(weights_, biases[p]);
    }
  }

  void AddPart(const std::string& name, int64_t first_out, AdaptedProduct& product) {
    const auto found = adapter_.tensors.find(name + ".lora_A.weight");
    if (found == adapter_.tensors.end()) return;
    const Tensor& a = found->second;
    const int64_t first = places_.at(found->first), rank = a.size(0);
    const int64_t below = product.a.defined() ? product.a.size(0) : 0;
    const int64_t top = first - below * a.size(1);
    product.a = Part(made_->low, top, {below + rank, a.size(1)});
    product.a_gradient = Part(made_->gradients, top, {below + rank, a.size(1)});
    const std::string b = name + ".lora_B.weight";
    const at::IntArrayRef shape = adapter_.tensors.at(b).sizes();
    product.parts.push_back({.first_out = first_out,
                             .first_low = below,
                             .scale = adapter_.config.ScalingOf(name),
                             .b = Part(made_->low, places_.at(b), shape),
                             .b_gradient = Part(made_->gradients, places_.at(b), shape)});
    if (scale_ == 0) scale_ = product.parts.back().scale;
    if (product.parts.back().scale != scale_) made_->one_scale = false;
  }

  const PolicyWeights& weights_;
  const LoraAdapter& adapter_;
  std::shared_ptr<CudaAdapter> made_;
  std::map<std::string, int64_t> places_;
  int64_t numbers_ = 0;
  double scale_ = 0;
};

}  // namespace

void CudaAdapter::Refresh() const {
  const at::NoGradGuard no_grad;
  const int64_t bs = values.size(0) - first_b;
  low.narrow(0, 0, first_b).copy_(values.narrow(0, 0, first_b));
  const auto scaled = [&](Tensor to, double scale) {
    const Tensor from = values.narrow(0, to.storage_offset(), to.numel()).view(to.sizes());
    at::mul_out(to, from, at::scalar_tensor(scale, at::TensorOptions().dtype(at::kFloat)));
  };
  for (const Layer& layer : layers) {
    for (const AdaptedProduct& product : layer.products) {
      for (const AdaptedProduct::Part& part : product.parts) {
        if (one_scale) return scaled(low.narrow(0, first_b, bs), part.scale);
        scaled(part.b, part.scale);
      }
    }
  }
}

NamedTensors CudaAdapter::Copies() const {
  const at::NoGradGuard no_grad;
  const Tensor block = values.clone();
  NamedTensors copies;
  for (const auto& [name, leaf] : parameters) {
    copies.emplace(name, block.narrow(0, leaf.storage_offset(), leaf.numel()).view(leaf.sizes()));
  }
  WaitForStream(block);
  return copies;
}

std::shared_ptr<const CudaAdapter> MakeCudaAdapter(const PolicyWeights& weights) {
  if (weights.view().embed.scalar_type() != at::kBFloat16 || WholeBlock(weights) == nullptr) {
    return nullptr;
  }
  return AdapterMaker(weights).Make();
}

Tensor MultiplyAdapted(const Tensor& x, std::shared_ptr<const AdaptedProduct> product) {
  if (!product->a.defined()) return FrozenBlockFunction::apply(x, std::move(product));
  const Tensor always = at::empty({0}, x.options()).set_requires_grad(at::GradMode::is_enabled());
  return AdaptedFunction::apply(x, always, std::move(product));
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
