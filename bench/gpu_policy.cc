#include "bench/gpu_policy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <filesystem>

#include "core/files.h"
#include "model/cuda/weight_layout.h"
#include "model/torch/catch.h"
#include "model/torch/model.h"

namespace tidemill {
namespace {

using Made = std::shared_ptr<const PolicyWeights>;

constexpr double kBytesPerSecond = 4.3e12;
constexpr double kOperationsPerSecond = 790e12;

ModelConfig HalfBillionConfig() {
  ModelConfig config;
  config.family = ModelFamily::kQwen2;
  config.vocab_size = 151936;
  config.hidden_size = 896;
  config.intermediate_size = 4864;
  config.num_layers = 24;
  config.num_heads = 14;
  config.num_kv_heads = 2;
  config.head_dim = 64;
  config.max_position_embeddings = 32768;
  config.rope.theta = 1e6;
  config.qkv_bias = true;
  config.tie_word_embeddings = true;
  return config;
}

Result<Made> RandomBase(const ModelConfig& config, uint64_t seed) {
  return CatchTorch<Made>("random weights", [&]() -> Result<Made> {
    const at::NoGradGuard no_grad;
    at::manual_seed(seed);
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
    const WeightLayout layout = MakeWeightLayout(config);
    const at::Tensor block = at::zeros({static_cast<int64_t>(layout.numbers)}, options);
    NamedTensors tensors;
    for (const WeightPlace& place : layout.places) {
      at::Tensor tensor =
          block.narrow(0, static_cast<int64_t>(place.first), static_cast<int64_t>(place.numbers()))
              .view(place.shape);
      if (place.name.ends_with("norm.weight")) {
        tensor.fill_(1.0);
      } else if (!place.name.ends_with(".bias")) {
        tensor.normal_(0, config.initializer_range);
      }
      tensors.emplace(place.name, tensor);
    }
    return PolicyWeights::FromTensors(config, std::move(tensors));
  });
}

LoraConfig AdapterOf(const GpuPolicy& policy) {
  LoraConfig lora;
  lora.rank = policy.lora_rank;
  lora.alpha = 16;
  lora.target_pattern = "all-linear";
  lora.base_model = policy.shape;
  return lora;
}

// Parameters that a token is multiplied with: not the embedding, of which a row is read.
double Multiplied(const ModelConfig& config) {
  const double embedding = static_cast<double>(config.vocab_size * config.hidden_size);
  return static_cast<double>(config.ParameterCount()) -
         (config.tie_word_embeddings ? 0 : embedding);
}

// Each product W of `out` by `in` gets rank · (in + out) parameters.
double AdapterParameters(const GpuPolicy& policy) {
  const ModelConfig& c = policy.config;
  const int64_t attention = 2 * (c.hidden_size + c.q_size()) + 2 * (c.hidden_size + c.kv_size());
  const int64_t mlp = 3 * (c.hidden_size + c.intermediate_size);
  return static_cast<double>(policy.lora_rank * c.num_layers * (attention + mlp));
}

}  // namespace

Result<GpuPolicy> PolicyOfShape(const std::string& shape, int64_t lora_rank) {
  namespace fs = std::filesystem;
  if (shape == "0.5b") return GpuPolicy{shape, HalfBillionConfig(), lora_rank};
  const std::string known = "examples/shapes/" + shape;
  const std::string folder = fs::is_directory(shape) ? shape : known;
  const std::string file = fs::is_regular_file(shape) ? shape : folder + "/config.json";
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(file, 1 << 20));
  TM_ASSIGN_OR_RETURN(const ModelConfig config, ParseModelConfig(text, file));
  return GpuPolicy{shape, config, lora_rank};
}

Result<std::vector<Made>> RandomVersions(const GpuPolicy& policy, int count) {
  std::vector<Made> versions;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(i) + 1;
    Made made = versions.empty() ? nullptr : versions.front();
    if (made == nullptr || policy.lora_rank == 0) {
      TM_ASSIGN_OR_RETURN(made, RandomBase(policy.config, seed));
    }
    if (policy.lora_rank > 0) {
      TM_ASSIGN_OR_RETURN(auto adapter, NewAdapter(AdapterOf(policy), policy.config, seed, "cuda"));
      TM_ASSIGN_OR_RETURN(made, PolicyWeights::WithAdapter(made, std::move(adapter)));
    }
    versions.push_back(std::move(made));
  }
  return versions;
}

Result<Made> RandomGpuWeights(const GpuPolicy& policy) {
  TM_ASSIGN_OR_RETURN(std::vector<Made> versions, RandomVersions(policy, 1));
  return std::move(versions.front());
}

uint64_t CacheBytesOfToken(const ModelConfig& config) {
  return static_cast<uint64_t>(2 * config.num_layers * config.kv_size()) * 2;
}

GpuLimits DecodeLimits(const ModelConfig& config, double sequences, double context) {
  const double cached = context * static_cast<double>(CacheBytesOfToken(config));
  const double bytes = 2 * Multiplied(config) + sequences * cached;
  const double attention = 4 * context * static_cast<double>(config.num_layers * config.q_size());
  return {sequences * kBytesPerSecond / bytes,
          kOperationsPerSecond / (2 * Multiplied(config) + attention)};
}

GpuLimits TrainLimits(const GpuPolicy& policy, double tokens, bool moments_in_blocks) {
  const auto parameters = static_cast<double>(policy.config.ParameterCount());
  const bool adapter = policy.lora_rank > 0;
  // Of float32 gradients, weights and two moments all but the gradients are read and written, and
  // the bfloat16 weights written. In blocks: bfloat16 gradients, weights of 2 + 2, moments of 1
  // + 1.
  const double update = moments_in_blocks ? 16 : 34;
  const double bytes = parameters * (adapter ? 4 : 4 + update);
  return {tokens * kBytesPerSecond / bytes,
          kOperationsPerSecond / ((adapter ? 4 : 6) * parameters)};
}

double SwapLimitMs(const GpuPolicy& policy) {
  const double moved = policy.lora_rank > 0 ? AdapterParameters(policy)
                                            : static_cast<double>(policy.config.ParameterCount());
  return 2 * 2 * moved / kBytesPerSecond * 1e3;
}

}  // namespace tidemill
