#include "model/torch/lora.h"

#include "model/torch/aten.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/random.h"
#include "model/layer_plan.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight";
constexpr std::string_view kB = ".lora_B.weight";

struct Shape {
  int64_t out;
  int64_t in;
  int64_t experts = 0;  // that share the module; 0: it is a matrix of its own
};

// What an adapter can be on by full name: "model.layers.0.self_attn.q_proj". Experts are adapted
// all together.
std::map<std::string, Shape> Projections(const ModelConfig& model) {
  std::map<std::string, Shape> projections;
  const DecoderPlan plan = PlanDecoder(model);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    const auto add = [&](const char* name, int64_t out, int64_t in) {
      projections[LayerName(layer, name)] = {out, in};
    };
    add("self_attn.q_proj", model.q_size(), model.hidden_size);
    add("self_attn.k_proj", model.kv_size(), model.hidden_size);
    add("self_attn.v_proj", model.kv_size(), model.hidden_size);
    add("self_attn.o_proj", model.hidden_size, model.q_size());
    if (const ExpertPlan& experts = plan.layers[i].experts; experts.count > 0) {
      projections[ExpertGateUpModule(layer)] = {2 * experts.width, model.hidden_size,
                                                experts.count};
      projections[ExpertDownModule(layer)] = {model.hidden_size, experts.width, experts.count};
      continue;
    }
    add("mlp.gate_proj", model.intermediate_size, model.hidden_size);
    add("mlp.up_proj", model.intermediate_size, model.hidden_size);
    add("mlp.down_proj", model.hidden_size, model.intermediate_size);
  }
  return projections;
}

bool Adapts(const LoraConfig& config, const std::string& module, const Shape& shape) {
  return shape.experts > 0 ? config.experts : config.Targets(module);
}

// Rows of its A, and columns of its B.
int64_t RowsOf(const LoraConfig& config, const std::string& module, const Shape& shape) {
  return config.RankOf(module) * std::max<int64_t>(shape.experts, 1);
}

Status CheckShape(const std::string& name, const at::Tensor& tensor, int64_t rows,
                  int64_t columns) {
  if (tensor.dim() == 2 && tensor.size(0) == rows && tensor.size(1) == columns) return Ok();
  return Invalid("adapter tensor \"" + name + "\" should be [" + std::to_string(rows) + ", " +
                 std::to_string(columns) + "]");
}

}  // namespace

std::string ExpertGateUpModule(int64_t layer) {
  return LayerName(layer, "mlp.experts.base_layer");
}

std::string ExpertDownModule(int64_t layer) {
  return LayerName(layer, "mlp.experts");
}

ExpertTensors::LowRank ExpertLowRank(const LoraAdapter& adapter, const std::string& module) {
  const auto a = adapter.tensors.find(module + std::string(kA));
  if (a == adapter.tensors.end()) return {};
  return {a->second, adapter.tensors.at(module + std::string(kB)),
          adapter.config.ScalingOf(module)};
}

Status CheckAdapter(const LoraAdapter& adapter, const ModelConfig& model) {
  const std::map<std::string, Shape> projections = Projections(model);
  for (const auto& [name, tensor] : adapter.tensors) {
    const bool is_a = name.ends_with(kA);
    const std::string module =
        is_a || name.ends_with(kB) ? name.substr(0, name.size() - kA.size()) : std::string();
    const auto projection = projections.find(module);
    if (projection == projections.end()) {
      return Invalid("adapter tensor \"" + name + "\" has no place in this model");
    }
    if (!adapter.tensors.contains(module + std::string(is_a ? kB : kA))) {
      return Invalid("adapter tensor \"" + name + "\" lacks its counterpart");
    }
    const int64_t rank = RowsOf(adapter.config, module, projection->second);
    TM_RETURN_IF_ERROR(is_a ? CheckShape(name, tensor, rank, projection->second.in)
                            : CheckShape(name, tensor, projection->second.out, rank));
  }
  if (adapter.tensors.empty()) return Invalid("the adapter has no tensors");
  return Ok();
}

Result<std::shared_ptr<const LoraAdapter>> LoadAdapter(const std::string& dir,
                                                       const ModelConfig& model,
                                                       const std::string& device) {
  using Made = std::shared_ptr<const LoraAdapter>;
  LoraAdapter adapter;
  TM_ASSIGN_OR_RETURN(adapter.config, ReadLoraConfig(dir));
  const std::string path = dir + "/adapter_model.safetensors";
  TM_ASSIGN_OR_RETURN(const NamedTensors stored, ReadTensors(path));
  return CatchTorch<Made>(path, [&]() -> Result<Made> {
    for (const auto& [name, tensor] : stored) {
      if (!name.starts_with(kPrefix)) {
        return Invalid(path + ": tensor \"" + name + "\" does not start with \"" +
                       std::string(kPrefix) + "\"");
      }
      adapter.tensors.emplace(name.substr(kPrefix.size()),
                              tensor.to(at::Device(device), at::kFloat));
    }
    TM_RETURN_IF_ERROR(CheckAdapter(adapter, model).WithContext(path));
    return std::make_shared<const LoraAdapter>(std::move(adapter));
  });
}

Result<std::shared_ptr<const LoraAdapter>> NewAdapter(const LoraConfig& config,
                                                      const ModelConfig& model, uint64_t seed,
                                                      const std::string& device) {
  using Made = std::shared_ptr<const LoraAdapter>;
  return CatchTorch<Made>("new adapter", [&]() -> Result<Made> {
    LoraAdapter adapter{.config = config, .tensors = {}};
    const Random root(seed);
    for (const auto& [module, shape] : Projections(model)) {
      if (!Adapts(config, module, shape)) continue;
      const int64_t rank = RowsOf(config, module, shape);
      at::Tensor a = at::empty({rank, shape.in}, at::TensorOptions().dtype(at::kFloat));
      Random random = root.Split(module);
      const double bound = 1.0 / std::sqrt(static_cast<double>(shape.in));
      for (int64_t i = 0; i < a.numel(); ++i) {
        a.data_ptr<float>()[i] = static_cast<float>((2 * random.Uniform() - 1) * bound);
      }
      adapter.tensors.emplace(module + std::string(kA), a.to(at::Device(device)));
      adapter.tensors.emplace(
          module + std::string(kB),
          at::zeros({shape.out, rank}, at::TensorOptions().dtype(at::kFloat).device(device)));
    }
    if (adapter.tensors.empty())
      return Invalid("the LoRA targets name no projection of this model");
    return std::make_shared<const LoraAdapter>(std::move(adapter));
  });
}

Status SaveAdapter(const LoraAdapter& adapter, const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return Invalid("cannot create the directory " + dir + ": " + error.message());
  NamedTensors named;
  for (const auto& [name, tensor] : adapter.tensors) {
    named.emplace(std::string(kPrefix) + name, tensor);
  }
  TM_RETURN_IF_ERROR(WriteTensors(dir + "/adapter_model.safetensors", named));
  return WriteLoraConfig(adapter.config, dir);
}

}  // namespace tidemill
