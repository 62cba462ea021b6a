// PolicyWeights: from files, from a seed, from tensors; checked once, when they are put in their
// places.
#include "model/torch/aten.h"

#include <algorithm>
#include <filesystem>

#include "core/memory.h"
#include "core/parallel.h"
#include "core/threads.h"
#include "model/layer_plan.h"
#include "model/number_types.h"
#include "model/random_weights.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

TensorShapes ShapesOf(const NamedTensors& tensors) {
  TensorShapes shapes;
  for (const auto& [name, tensor] : tensors) shapes.emplace(name, tensor.sizes().vec());
  return shapes;
}

// Where the bytes of a tensor lie in a file, as a tensor that keeps the map open; nobody writes
// through it. What is not aligned is copied.
Result<at::Tensor> StoredTensor(const TensorFiles& files, const TensorView& view) {
  TM_ASSIGN_OR_RETURN(const at::ScalarType stored, ToScalarType(view.dtype));
  if (!at::isFloatingType(stored)) return Invalid("holds no floating-point numbers");
  if (reinterpret_cast<uintptr_t>(view.data) % DtypeSize(view.dtype) != 0) {
    return CopyToTensor(view);
  }
  return at::from_blob(
      const_cast<std::byte*>(view.data), view.shape, [files](void*) {},
      at::TensorOptions().dtype(stored));
}

// Reads a model's tensors: as they lie where the type fits, converted by several threads else.
class TensorLoader {
 public:
  TensorLoader(const TensorFiles& files, const LoadOptions& options)
      : files_(files),
        options_(options),
        device_(options.device),
        threads_(options.threads > 0 ? options.threads : AvailableCores()) {}

  Status Add(const TensorView& view, NamedTensors& tensors) {
    TM_ASSIGN_OR_RETURN(const at::Tensor stored, StoredTensor(files_, view));
    at::ScalarType wanted = stored.scalar_type() == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
    if (options_.dtype.has_value()) {
      TM_ASSIGN_OR_RETURN(wanted, ToScalarType(*options_.dtype));
    }
    const bool widens = device_.is_cpu() && wanted == at::kFloat && view.dtype != Dtype::kF32 &&
                        IsWeightType(view.dtype);
    if (!widens) {
      // To a GPU as they are: the fewer bytes travel, and the GPU converts them faster.
      tensors.emplace(view.name, stored.to(device_).to(wanted));
      return Ok();
    }
    at::Tensor made = at::empty(view.shape, at::TensorOptions().dtype(at::kFloat));
    UseHugePages(made.data_ptr(), made.nbytes());
    const size_t size = DtypeSize(view.dtype);
    for (size_t first = 0; first < view.bytes; first += kPieceBytes) {
      pieces_.push_back({view.dtype, view.data + first,
                         std::min(kPieceBytes, view.bytes - first) / size,
                         made.data_ptr<float>() + first / size});
    }
    tensors.emplace(view.name, std::move(made));
    return Ok();
  }

  // Fills what was added.
  Status Finish() {
    return InParallel(pieces_.size(), threads_, [&](size_t i) {
      const Piece& piece = pieces_[i];
      ToFloat32(piece.dtype, piece.from, piece.count, piece.to);
      return Ok();
    });
  }

 private:
  static constexpr size_t kPieceBytes = size_t{4} << 20;
  struct Piece {
    Dtype dtype;
    const std::byte* from;
    size_t count;
    float* to;
  };

  const TensorFiles& files_;
  const LoadOptions& options_;
  const at::Device device_;
  const int threads_;
  std::vector<Piece> pieces_;
};

ExpertTensors ArrangeExperts(int64_t layer, const ExpertPlan& plan, const NamedTensors& tensors,
                             const LoraAdapter* adapter) {
  ExpertTensors out;
  out.router = tensors.at(LayerName(layer, plan.router) + ".weight");
  if (plan.biased) out.bias = tensors.at(RouterBiasName(layer, plan));
  for (int64_t e = 0; e < plan.count; ++e) {
    const auto part = [&](std::string_view name) {
      return tensors.at(ExpertName(layer, plan, e, name) + ".weight");
    };
    out.experts.push_back({part(plan.gate), part(plan.up), part(plan.down)});
  }
  if (adapter == nullptr) return out;
  out.gate_up = ExpertLowRank(*adapter, ExpertGateUpModule(layer));
  out.down = ExpertLowRank(*adapter, ExpertDownModule(layer));
  return out;
}

// Of "model.layers.3.mlp.experts.5.gate_proj.weight" in a model with experts.
struct ExpertPlace {
  int64_t layer = 0, expert = 0;
  std::string part;
};
std::optional<ExpertPlace> PlaceOfExpert(const DecoderPlan& plan, const std::string& name) {
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const ExpertPlan& experts = plan.layers[i].experts;
    const auto layer = static_cast<int64_t>(i);
    const std::string before = LayerName(layer, experts.experts) + ".";
    if (experts.count == 0 || !name.starts_with(before)) continue;
    const size_t dot = name.find('.', before.size());
    return ExpertPlace{layer, std::stoll(name.substr(before.size(), dot - before.size())),
                       name.substr(dot + 1, name.rfind('.') - dot - 1)};
  }
  return std::nullopt;
}

at::Tensor MergedExpert(const PolicyWeights& weights, const ExpertPlace& place,
                        const at::Tensor& weight) {
  const auto layer = static_cast<size_t>(place.layer);
  const DecoderPlan decoder = PlanDecoder(weights.config());
  const ExpertPlan& plan = decoder.layers[layer].experts;
  const ExpertTensors& experts = weights.view().layers[layer].experts;
  const bool down = place.part == plan.down;
  const ExpertTensors::LowRank& low = down ? experts.down : experts.gate_up;
  if (!low.a.defined()) return weight;
  LinearTensors linear = low.Of(place.expert, plan.count);
  linear.weight = weight;
  if (!down) {
    const int64_t first = place.part == plan.up ? plan.width : 0;
    linear.lora_b = linear.lora_b.narrow(0, first, plan.width);
  }
  return MergedLinear(linear);
}

}  // namespace

Result<ModelTensorsView> ArrangeTensors(const ModelConfig& config, const NamedTensors& tensors,
                                        const LoraAdapter* adapter) {
  TM_RETURN_IF_ERROR(CheckTensorShapes(config, ShapesOf(tensors)));
  if (adapter != nullptr) TM_RETURN_IF_ERROR(CheckAdapter(*adapter, config));
  const auto linear = [&](const std::string& name) {
    LinearTensors out{
        .weight = tensors.at(name + ".weight"), .bias = {}, .lora_a = {}, .lora_b = {}};
    if (const auto bias = tensors.find(name + ".bias"); bias != tensors.end()) {
      out.bias = bias->second;
    }
    if (adapter == nullptr) return out;
    if (const auto a = adapter->tensors.find(name + ".lora_A.weight");
        a != adapter->tensors.end()) {
      out.lora_a = a->second;
      out.lora_b = adapter->tensors.at(name + ".lora_B.weight");
      out.lora_scale = adapter->config.ScalingOf(name);
    }
    return out;
  };
  ModelTensorsView view;
  view.embed = tensors.at("model.embed_tokens.weight");
  view.norm = tensors.at("model.norm.weight");
  view.head = config.tie_word_embeddings ? view.embed : tensors.at("lm_head.weight");
  const DecoderPlan plan = PlanDecoder(config);
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const LayerPlan& planned = plan.layers[static_cast<size_t>(i)];
    const auto norm = [&](std::string_view name) {
      if (name.empty()) return at::Tensor();
      return tensors.at(LayerName(i, name) + ".weight");
    };
    LayerTensors layer;
    layer.attention_in = norm(planned.attention_in);
    layer.attention_out = norm(planned.attention_out);
    layer.mlp_in = norm(planned.mlp_in);
    layer.mlp_out = norm(planned.mlp_out);
    layer.q = linear(LayerName(i, "self_attn.q_proj"));
    layer.k = linear(LayerName(i, "self_attn.k_proj"));
    layer.v = linear(LayerName(i, "self_attn.v_proj"));
    layer.o = linear(LayerName(i, "self_attn.o_proj"));
    if (planned.experts.count > 0) {
      layer.experts = ArrangeExperts(i, planned.experts, tensors, adapter);
    } else {
      layer.gate = linear(LayerName(i, "mlp.gate_proj"));
      layer.up = linear(LayerName(i, "mlp.up_proj"));
      layer.down = linear(LayerName(i, "mlp.down_proj"));
    }
    if (planned.qk_norm != QueryKeyNorm::kNone) {
      layer.q_norm = norm("self_attn.q_norm");
      layer.k_norm = norm("self_attn.k_norm");
    }
    view.layers.push_back(std::move(layer));
  }
  return view;
}

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::FromTensors(const ModelConfig& config,
                                                                        NamedTensors tensors) {
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, "model"));
  TM_ASSIGN_OR_RETURN(ModelTensorsView view, ArrangeTensors(config, tensors, nullptr));
  std::shared_ptr<PolicyWeights> weights(new PolicyWeights);
  weights->config_ = config;
  if (view.embed.scalar_type() == at::kBFloat16) weights->config_.dtype = Dtype::kBF16;
  if (view.embed.scalar_type() == at::kFloat) weights->config_.dtype = Dtype::kF32;
  weights->tensors_ = std::make_shared<const NamedTensors>(std::move(tensors));
  weights->view_ = std::move(view);
  return std::shared_ptr<const PolicyWeights>(std::move(weights));
}

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::Load(const std::string& dir,
                                                                 const LoadOptions& options) {
  TM_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(dir));
  TM_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::OpenModel(dir));
  using Loaded = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Loaded>(dir, [&]() -> Result<Loaded> {
    const at::NoGradGuard no_grad;
    NamedTensors tensors;
    TensorLoader loader(files, options);
    for (const TensorView& view : files.tensors()) {
      if (IsSpareTensor(config, view.name)) continue;
      TM_RETURN_IF_ERROR(
          loader.Add(view, tensors).WithContext(dir + ": tensor \"" + view.name + "\""));
    }
    TM_RETURN_IF_ERROR(loader.Finish());
    Result<Loaded> weights = FromTensors(config, std::move(tensors));
    if (!weights.ok()) return weights.status().WithContext(dir);
    return weights;
  });
}

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::NewRandom(const ModelConfig& config,
                                                                      uint64_t seed, Dtype dtype) {
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, "model"));
  TM_ASSIGN_OR_RETURN(const at::ScalarType type, ToScalarType(dtype));
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("new weights", [&]() -> Result<Made> {
    NamedTensors tensors;
    for (const auto& [name, shape] : ExpectedTensors(config)) {
      at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
      const TensorView view{.name = name, .dtype = dtype, .shape = shape};
      FillRandomTensor(config, seed, view, AvailableCores(),
                       {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
      tensors.emplace(name, std::move(tensor));
    }
    return FromTensors(config, std::move(tensors));
  });
}

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::WithAdapter(
    const std::shared_ptr<const PolicyWeights>& base, std::shared_ptr<const LoraAdapter> adapter) {
  TM_ASSIGN_OR_RETURN(ModelTensorsView view,
                      ArrangeTensors(base->config(), base->tensors(), adapter.get()));
  std::shared_ptr<PolicyWeights> weights(new PolicyWeights);
  weights->config_ = base->config_;
  weights->tensors_ = base->tensors_;
  weights->adapter_ = std::move(adapter);
  weights->view_ = std::move(view);
  return std::shared_ptr<const PolicyWeights>(std::move(weights));
}

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::WithRouterBias(
    const std::shared_ptr<const PolicyWeights>& weights) {
  ModelConfig config = weights->config();
  if (config.experts.count == 0) return Invalid("a model without experts has no routers");
  if (config.experts.biased) return weights;
  config.experts.biased = true;
  NamedTensors tensors = weights->tensors();
  const DecoderPlan plan = PlanDecoder(config);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const ExpertPlan& experts = plan.layers[i].experts;
    if (experts.count == 0) continue;
    tensors.emplace(RouterBiasName(static_cast<int64_t>(i), experts),
                    at::zeros({experts.count}, weights->view().embed.options()));
  }
  return FromTensors(config, std::move(tensors));
}

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::Merged(
    const std::shared_ptr<const PolicyWeights>& weights) {
  if (weights->adapter() == nullptr) return weights;
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("merging the adapter", [&]() -> Result<Made> {
    const at::NoGradGuard no_grad;
    NamedTensors merged;
    for (const auto& [name, tensor] : weights->tensors()) {
      merged.emplace(name, MergedTensor(*weights, name));
    }
    return FromTensors(weights->config(), std::move(merged));
  });
}

at::Tensor MergedTensor(const PolicyWeights& weights, const std::string& name) {
  constexpr std::string_view kSuffix = ".weight";
  const at::Tensor& weight = weights.tensors().at(name);
  if (weights.adapter() == nullptr || !name.ends_with(kSuffix)) return weight;
  if (const auto place = PlaceOfExpert(PlanDecoder(weights.config()), name)) {
    return MergedExpert(weights, *place, weight);
  }
  const LoraAdapter& adapter = *weights.adapter();
  const std::string module = name.substr(0, name.size() - kSuffix.size());
  const auto a = adapter.tensors.find(module + ".lora_A.weight");
  if (a == adapter.tensors.end()) return weight;
  return MergedLinear({.weight = weight,
                       .bias = {},
                       .lora_a = a->second,
                       .lora_b = adapter.tensors.at(module + ".lora_B.weight"),
                       .lora_scale = adapter.config.ScalingOf(module)});
}

at::Tensor MergedLinear(const LinearTensors& linear) {
  if (!linear.lora_a.defined()) return linear.weight;
  const at::Tensor delta = at::matmul(linear.lora_b.to(at::kFloat), linear.lora_a.to(at::kFloat));
  return linear.weight.to(at::kFloat).add(delta, linear.lora_scale).to(linear.weight.scalar_type());
}

Status PolicyWeights::Save(const std::string& dir) const {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return Invalid("cannot create the directory " + dir + ": " + error.message());
  TM_ASSIGN_OR_RETURN(const HostTensors host, ToHost(*tensors_));
  TM_RETURN_IF_ERROR(WriteModelTensors(dir, host.views));
  // The config last: a directory without it is not taken for a model.
  return WriteModelConfig(config_, dir);
}

std::shared_ptr<const PolicyWeights> ToPolicyWeights(std::shared_ptr<const Weights> weights) {
  auto policy = std::dynamic_pointer_cast<const PolicyWeights>(std::move(weights));
  TM_CHECK(policy != nullptr);
  return policy;
}

}  // namespace tidemill
