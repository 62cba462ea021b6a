#ifdef TIDEMILL_CUDA

#include "model/torch/cuda_leaves.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "model/cuda/weight_layout.h"
#include "model/torch/gpu_products.h"
#include "model/torch/gpu_runtime.h"
#include "model/torch/held.h"
#include "model/torch/product_pieces.h"

namespace tidemill {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor Part(const Tensor& block, const WeightPlace& place) {
  return block.narrow(0, static_cast<int64_t>(place.first), static_cast<int64_t>(place.numbers()))
      .view(place.shape);
}

// Finds products in the blocks by the names of their layers.
class Finder {
 public:
  Finder(const WeightLayout& layout, const CudaLeaves& leaves) : layout_(layout), leaves_(leaves) {}

  // Layers that lie one after the other.
  CudaProduct Find(const std::vector<std::string>& names, bool biased) const {
    CudaProduct product;
    product.weight = Rows(leaves_.low, names, ".weight");
    product.weight_gradient = Rows(leaves_.gradients, names, ".weight");
    if (!biased) return product;
    product.bias = Rows(leaves_.low, names, ".bias");
    product.bias_gradient = Rows(leaves_.gradients, names, ".bias");
    return product;
  }

 private:
  Tensor Rows(const Tensor& block, const std::vector<std::string>& names, const char* kind) const {
    WeightPlace whole = layout_.Of(names.front() + kind);
    for (size_t i = 1; i < names.size(); ++i) {
      const WeightPlace& next = layout_.Of(names[i] + kind);
      TM_CHECK(next.first == whole.first + whole.numbers(), "what is one product lies together");
      whole.shape[0] += next.shape[0];
    }
    return Part(block, whole);
  }

  const WeightLayout& layout_;
  const CudaLeaves& leaves_;
};

class ProductFunction : public torch::autograd::Function<ProductFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x,
                        const std::shared_ptr<const CudaProduct>& product, double most) {
    ctx->save_for_backward({x});
    Hold(ctx, "product", product);
    ctx->saved_data["most"] = most;
    return LinearInPieces(x, product->weight, product->bias, most);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto product = TakeHeld<CudaProduct>(ctx, "product");
    const Tensor x = ctx->get_saved_variables()[0], dy = grads[0].contiguous();
    const double most = ctx->saved_data["most"].toDouble();
    AddProductInPieces(dy, x, product->weight_gradient, most);
    if (product->bias.defined()) {
      Tensor gradient = product->bias_gradient;
      gradient.add_(dy.sum(0, /*keepdim=*/false, at::kFloat));
    }
    return {ProductInPieces(dy, product->weight, most), Tensor(), Tensor()};
  }
};

class EmbedFunction : public torch::autograd::Function<EmbedFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& leaf, const Tensor& tokens,
                        const std::shared_ptr<const CudaProduct>& embed) {
    static_cast<void>(leaf);
    Hold(ctx, "embed", embed);
    if (embed->weight_gradient.scalar_type() == at::kFloat) {
      ctx->save_for_backward({tokens, Tensor()});
    } else {
      // Here, where a pass begins, the wait for how many there are costs least.
      const auto [rows, places, unused] = at::_unique2(tokens, /*sorted=*/true, true);
      ctx->save_for_backward({rows, places});
    }
    return at::embedding(embed->weight, tokens);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Tensor gradient = TakeHeld<CudaProduct>(ctx, "embed")->weight_gradient;
    const auto saved = ctx->get_saved_variables();
    const Tensor &rows = saved[0], &places = saved[1], dy = grads[0].to(at::kFloat);
    if (!places.defined()) {
      gradient.index_add_(0, rows, dy);
      return {Tensor(), Tensor(), Tensor()};
    }
    // A token's gradients at all its places are added up before anything is rounded.
    Tensor sums = gradient.index_select(0, rows).to(at::kFloat);
    sums.index_add_(0, places, dy);
    gradient.index_copy_(0, rows, sums.to(gradient.scalar_type()));
    return {Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

void CudaLeaves::Refresh() const {
  if (narrow()) return;
  const at::NoGradGuard no_grad;
  Tensor to = low;
  to.copy_(values);
}

std::shared_ptr<const CudaLeaves> MakeCudaLeaves(const ModelConfig& config,
                                                 const NamedTensors& tensors, bool narrow) {
  const at::NoGradGuard no_grad;
  const WeightLayout layout = MakeWeightLayout(config);
  const auto options =
      tensors.at("model.embed_tokens.weight").options().dtype(at::kFloat).requires_grad(false);
  auto leaves = std::make_shared<CudaLeaves>();
  const auto numbers = static_cast<int64_t>(layout.numbers);
  if (!narrow) leaves->values = at::zeros({numbers}, options);
  leaves->gradients = at::zeros({numbers}, narrow ? options.dtype(at::kBFloat16) : options);
  leaves->low = at::zeros({numbers}, options.dtype(at::kBFloat16));
  for (const WeightPlace& place : layout.places) {
    Tensor value = Part(narrow ? leaves->low : leaves->values, place);
    value.copy_(tensors.at(place.name).detach());
    Tensor leaf = value.detach().set_requires_grad(true);
    leaf.mutable_grad() = Part(leaves->gradients, place);
    leaves->parameters.emplace(place.name, leaf);
  }
  const Finder finder(layout, *leaves);
  leaves->embed = finder.Find({"model.embed_tokens"}, false);
  leaves->head = config.tie_word_embeddings ? leaves->embed : finder.Find({"lm_head"}, false);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
    leaves->layers.push_back(
        {.qkv = finder.Find({attention + "q_proj", attention + "k_proj", attention + "v_proj"},
                            config.qkv_bias),
         .o = finder.Find({attention + "o_proj"}, config.output_bias),
         .gate_up = finder.Find({mlp + "gate_proj", mlp + "up_proj"}, config.mlp_bias),
         .down = finder.Find({mlp + "down_proj"}, config.mlp_bias)});
  }
  return leaves;
}

NamedTensors CopyLeaves(const ModelConfig& config, const CudaLeaves& leaves, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const Tensor& from = leaves.narrow() ? leaves.low : leaves.values;
  const Tensor block = from.to(type, /*non_blocking=*/false, /*copy=*/true);
  NamedTensors copies;
  for (const WeightPlace& place : MakeWeightLayout(config).places) {
    copies.emplace(place.name, Part(block, place));
  }
  WaitForStream(block);
  return copies;
}

Tensor MultiplyLeaves(const Tensor& x, std::shared_ptr<const CudaProduct> product, double most) {
  return ProductFunction::apply(x, std::move(product), most);
}

Tensor EmbedLeaves(const Tensor& leaf, const Tensor& tokens,
                   std::shared_ptr<const CudaProduct> embed) {
  if (!at::GradMode::is_enabled()) return at::embedding(embed->weight, tokens);
  return EmbedFunction::apply(leaf, tokens, std::move(embed));
}

double GradientNorm(const Tensor& gradients) {
  const at::NoGradGuard no_grad;
  // In parts that fit 32-bit indices; of bfloat16 no float32 copy is made on a GPU.
  constexpr int64_t kPart = int64_t{1} << 30;
  std::vector<Tensor> norms;
  for (int64_t first = 0; first < gradients.numel(); first += kPart) {
    const int64_t count = std::min(kPart, gradients.numel() - first);
    norms.push_back(gradients.narrow(0, first, count).norm(2, at::kFloat));
  }
  return at::stack(norms).norm().item<double>();
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
