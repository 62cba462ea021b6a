// PolicyWeights: from files, from a seed, from tensors; checked once, when they are put in their
// places.
#include "model/torch/aten.h"

#include <filesystem>

#include "core/random.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

std::string LayerName(int64_t layer, const char* rest) {
  return "model.layers." + std::to_string(layer) + "." + rest;
}

std::string ShapeText(at::IntArrayRef shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

Status CheckNamesAndShapes(const ModelConfig& config, const NamedTensors& tensors) {
  const auto expected = ExpectedTensors(config);
  for (const auto& [name, shape] : expected) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return Invalid("tensor \"" + name + "\" is missing");
    if (found->second.sizes() != at::IntArrayRef(shape)) {
      return Invalid("tensor \"" + name + "\" has shape " + ShapeText(found->second.sizes()) +
                     ", the config requires " + ShapeText(shape));
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (!expected.contains(name)) {
      return Invalid("tensor \"" + name + "\" does not belong to a " +
                     std::string(ModelFamilyName(config.family)) + " model of this config");
    }
  }
  return Ok();
}

// What other writers leave in a file and nothing here needs.
bool Ignorable(const ModelConfig& config, std::string_view name) {
  return (config.tie_word_embeddings && name == "lm_head.weight") ||
         name.ends_with(".rotary_emb.inv_freq");
}

Result<at::Tensor> MapTensor(const TensorFiles& files, const TensorView& view,
                             const LoadOptions& options) {
  TM_ASSIGN_OR_RETURN(const at::ScalarType stored, ToScalarType(view.dtype));
  if (!at::isFloatingType(stored)) return Invalid("holds no floating-point numbers");
  at::ScalarType wanted = stored == at::kBFloat16 ? at::kBFloat16 : at::kFloat;
  if (options.dtype.has_value()) {
    TM_ASSIGN_OR_RETURN(wanted, ToScalarType(*options.dtype));
  }
  at::Tensor tensor;
  if (reinterpret_cast<uintptr_t>(view.data) % DtypeSize(view.dtype) == 0) {
    // The tensor keeps the map open; nobody writes through it.
    tensor = at::from_blob(
        const_cast<std::byte*>(view.data), view.shape, [files](void*) {},
        at::TensorOptions().dtype(stored));
  } else {
    TM_ASSIGN_OR_RETURN(tensor, CopyToTensor(view));
  }
  return tensor.to(at::Device(options.device), wanted);
}

}  // namespace

std::map<std::string, std::vector<int64_t>> ExpectedTensors(const ModelConfig& c) {
  std::map<std::string, std::vector<int64_t>> expected;
  expected["model.embed_tokens.weight"] = {c.vocab_size, c.hidden_size};
  expected["model.norm.weight"] = {c.hidden_size};
  if (!c.tie_word_embeddings) expected["lm_head.weight"] = {c.vocab_size, c.hidden_size};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const auto linear = [&](const char* name, int64_t out, int64_t in, bool bias) {
      expected[LayerName(i, name) + ".weight"] = {out, in};
      if (bias) expected[LayerName(i, name) + ".bias"] = {out};
    };
    linear("self_attn.q_proj", c.q_size(), c.hidden_size, c.qkv_bias);
    linear("self_attn.k_proj", c.kv_size(), c.hidden_size, c.qkv_bias);
    linear("self_attn.v_proj", c.kv_size(), c.hidden_size, c.qkv_bias);
    linear("self_attn.o_proj", c.hidden_size, c.q_size(), c.output_bias);
    linear("mlp.gate_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    linear("mlp.up_proj", c.intermediate_size, c.hidden_size, c.mlp_bias);
    linear("mlp.down_proj", c.hidden_size, c.intermediate_size, c.mlp_bias);
    expected[LayerName(i, "input_layernorm.weight")] = {c.hidden_size};
    expected[LayerName(i, "post_attention_layernorm.weight")] = {c.hidden_size};
    if (c.qk_norm()) {
      expected[LayerName(i, "self_attn.q_norm.weight")] = {c.head_dim};
      expected[LayerName(i, "self_attn.k_norm.weight")] = {c.head_dim};
    }
  }
  return expected;
}

Result<ModelTensorsView> ArrangeTensors(const ModelConfig& config, const NamedTensors& tensors,
                                        const LoraAdapter* adapter) {
  TM_RETURN_IF_ERROR(CheckNamesAndShapes(config, tensors));
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
  for (int64_t i = 0; i < config.num_layers; ++i) {
    LayerTensors layer;
    layer.input_norm = tensors.at(LayerName(i, "input_layernorm.weight"));
    layer.post_norm = tensors.at(LayerName(i, "post_attention_layernorm.weight"));
    layer.q = linear(LayerName(i, "self_attn.q_proj"));
    layer.k = linear(LayerName(i, "self_attn.k_proj"));
    layer.v = linear(LayerName(i, "self_attn.v_proj"));
    layer.o = linear(LayerName(i, "self_attn.o_proj"));
    layer.gate = linear(LayerName(i, "mlp.gate_proj"));
    layer.up = linear(LayerName(i, "mlp.up_proj"));
    layer.down = linear(LayerName(i, "mlp.down_proj"));
    if (config.qk_norm()) {
      layer.q_norm = tensors.at(LayerName(i, "self_attn.q_norm.weight"));
      layer.k_norm = tensors.at(LayerName(i, "self_attn.k_norm.weight"));
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
    for (const TensorView& view : files.tensors()) {
      if (Ignorable(config, view.name)) continue;
      Result<at::Tensor> tensor = MapTensor(files, view, options);
      if (!tensor.ok()) return tensor.status().WithContext(dir + ": tensor \"" + view.name + "\"");
      tensors.emplace(view.name, *std::move(tensor));
    }
    Result<Loaded> weights = FromTensors(config, std::move(tensors));
    if (!weights.ok()) return weights.status().WithContext(dir);
    return weights;
  });
}

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::NewRandom(const ModelConfig& config,
                                                                      uint64_t seed) {
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, "model"));
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("new weights", [&]() -> Result<Made> {
    const Random root(seed);
    NamedTensors tensors;
    for (const auto& [name, shape] : ExpectedTensors(config)) {
      at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(at::kFloat));
      if (name.ends_with("norm.weight")) {
        tensor.fill_(1.0);
      } else if (name.ends_with(".bias")) {
        tensor.zero_();
      } else {
        Random random = root.Split(name);
        float* values = tensor.data_ptr<float>();
        for (int64_t i = 0; i < tensor.numel(); ++i) {
          values[i] = static_cast<float>(random.Normal() * config.initializer_range);
        }
      }
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

Result<std::shared_ptr<const PolicyWeights>> PolicyWeights::Merged(
    const std::shared_ptr<const PolicyWeights>& weights) {
  if (weights->adapter() == nullptr) return weights;
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("merging the adapter", [&]() -> Result<Made> {
    const at::NoGradGuard no_grad;
    NamedTensors merged = weights->tensors();
    for (const auto& [name, a] : weights->adapter()->tensors) {
      constexpr std::string_view kSuffix = ".lora_A.weight";
      if (!name.ends_with(kSuffix)) continue;
      const std::string module = name.substr(0, name.size() - kSuffix.size());
      const at::Tensor& b = weights->adapter()->tensors.at(module + ".lora_B.weight");
      at::Tensor& weight = merged.at(module + ".weight");
      weight = MergedLinear({.weight = weight,
                             .bias = {},
                             .lora_a = a,
                             .lora_b = b,
                             .lora_scale = weights->adapter()->config.ScalingOf(module)});
    }
    return FromTensors(weights->config(), std::move(merged));
  });
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
