#include "model/torch/lora.h"

#include "model/torch/aten.h"

#include <cmath>
#include <filesystem>

#include "core/random.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kA = ".lora_A.weight";
constexpr std::string_view kB = ".lora_B.weight";

struct Shape {
  int64_t out;
  int64_t in;
};

// The projections of the decoder by full name: "model.layers.0.self_attn.q_proj".
std::map<std::string, Shape> Projections(const ModelConfig& model) {
  std::map<std::string, Shape> projections;
  for (const auto& [name, shape] : ExpectedTensors(model)) {
    if (name.ends_with("_proj.weight")) {
      projections[name.substr(0, name.size() - kWeight.size())] = {shape[0], shape[1]};
    }
  }
  return projections;
}

Status CheckShape(const std::string& name, const at::Tensor& tensor, int64_t rows,
                  int64_t columns) {
  if (tensor.dim() == 2 && tensor.size(0) == rows && tensor.size(1) == columns) return Ok();
  return Invalid("adapter tensor \"" + name + "\" should be [" + std::to_string(rows) + ", " +
                 std::to_string(columns) + "]");
}

}  // namespace

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
    const int64_t rank = adapter.config.RankOf(module);
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
      if (!config.Targets(module)) continue;
      const int64_t rank = config.RankOf(module);
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
