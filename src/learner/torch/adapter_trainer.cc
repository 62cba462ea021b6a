#include "learner/torch/adapter_trainer.h"

#include "model/torch/aten.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/files.h"
#include "learner/torch/checkpoint.h"
#include "learner/torch/token_objective.h"
#include "model/torch/catch.h"
#include "model/torch/host_copy.h"

namespace tidemill {
namespace {

using at::Tensor;

constexpr const char* kAdapterOptimizerFile = "/optimizer.safetensors";
constexpr const char* kAdapterStateFile = "/trainer_state.json";
constexpr size_t kAdapterStateBytesMax = 4096;

// What the decoder runs on and where each target is predicted.
struct PackedRows {
  MicroTensors micro;
  std::vector<float> weights, behaviour, ratio_mask;
  std::vector<int64_t> sequence;
};

template <typename T>
Tensor NumbersOnDevice(const std::vector<T>& values, at::ScalarType type,
                       const at::Device& device) {
  Tensor tensor = HostVector(static_cast<int64_t>(values.size()), type, device);
  std::copy(values.begin(), values.end(), tensor.data_ptr<T>());
  return DeviceCopy(tensor, device);
}

void AppendNumbers(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

PackedRows PackRows(std::span<const TokenRow> rows, const TokenLoss& loss,
                    const std::string& device_name) {
  const at::Device device(device_name);
  PackedRows packed;
  std::vector<std::vector<int32_t>> ids;
  std::vector<int64_t> places, row_of, targets;
  for (size_t r = 0; r < rows.size(); ++r) {
    const TokenRow& row = rows[r];
    ids.push_back(row.ids);
    for (size_t i = 0; i < row.ids.size(); ++i) {
      for (int64_t k = 0; k < row.per_place; ++k) {
        row_of.push_back(static_cast<int64_t>(places.size()));
        packed.sequence.push_back(static_cast<int64_t>(r));
      }
      places.push_back(static_cast<int64_t>(places.size()));
    }
    targets.insert(targets.end(), row.targets.begin(), row.targets.end());
    const bool cross_entropy = loss.kind == TokenLossKind::kCrossEntropy;
    AppendNumbers(packed.weights, cross_entropy ? row.weights : row.advantages);
    AppendNumbers(packed.behaviour, row.behaviour);
    AppendNumbers(packed.ratio_mask, row.ratio_mask);
    packed.micro.sequences.push_back(static_cast<int32_t>(r));
  }
  packed.micro.packed = Pack(ids, device_name);
  packed.micro.rows = NumbersOnDevice(places, at::kLong, device);
  packed.micro.row_of = NumbersOnDevice(row_of, at::kLong, device);
  packed.micro.targets = NumbersOnDevice(targets, at::kLong, device);
  return packed;
}

TokenLossInput LossInput(const PackedRows& packed, const Tensor& logprobs, size_t sequences) {
  const at::Device device = logprobs.device();
  const auto numbers = [&](const std::vector<float>& values) {
    return values.empty() ? Tensor() : NumbersOnDevice(values, at::kFloat, device);
  };
  return {.current = logprobs,
          .weights = numbers(packed.weights),
          .behaviour = numbers(packed.behaviour),
          .ratio_mask = numbers(packed.ratio_mask),
          .sequence = NumbersOnDevice(packed.sequence, at::kLong, device),
          .sequences = static_cast<int64_t>(sequences)};
}

Result<uint64_t> ReadOptimizerSteps(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kAdapterStateBytesMax));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("optimizer_steps") ||
      !json["optimizer_steps"].is_number_unsigned()) {
    return Corrupt(path + ": \"optimizer_steps\" must be a whole number");
  }
  return json["optimizer_steps"].get<uint64_t>();
}

}  // namespace

AdapterTrainer::AdapterTrainer(std::unique_ptr<TrainableModel> model,
                               const AdapterTrainerOptions& options)
    : options_(options),
      scorer_(std::move(model), {.fused = false, .bfloat16 = options.bfloat16}),
      optimizer_(std::make_unique<AdamW>(adamw_)) {}

Result<std::unique_ptr<AdapterTrainer>> AdapterTrainer::New(
    std::shared_ptr<const PolicyWeights> weights, const AdapterTrainerOptions& options) {
  using Made = std::unique_ptr<AdapterTrainer>;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<TrainableModel> model,
                      TrainableModel::FromAdapter(std::move(weights)));
  return CatchTorch<Made>("a trainer of an adapter", [&]() -> Result<Made> {
    Made made(new AdapterTrainer(std::move(model), options));
    // A step without a pass is a step with a gradient of zero.
    for (auto& [name, leaf] : made->scorer_.leaves()) {
      if (!leaf.grad().defined()) leaf.mutable_grad() = at::zeros_like(leaf);
    }
    return made;
  });
}

Result<std::unique_ptr<AdapterTrainer>> AdapterTrainer::Load(
    const std::string& dir, const std::shared_ptr<const PolicyWeights>& base, bool optimizer,
    const AdapterTrainerOptions& options) {
  TM_RETURN_IF_ERROR(CheckCheckpoint(dir));
  const std::string device = base->view().embed.device().str();
  TM_ASSIGN_OR_RETURN(auto adapter, LoadAdapter(dir, base->config(), device));
  TM_ASSIGN_OR_RETURN(auto weights, PolicyWeights::WithAdapter(base, std::move(adapter)));
  TM_ASSIGN_OR_RETURN(auto trainer, New(std::move(weights), options));
  if (!optimizer) return trainer;
  TM_ASSIGN_OR_RETURN(const uint64_t steps, ReadOptimizerSteps(dir + kAdapterStateFile));
  TM_ASSIGN_OR_RETURN(NamedTensors moments, ReadTensors(dir + kAdapterOptimizerFile));
  const Status restored = CatchTorchStatus(dir, [&]() -> Status {
    for (auto& [name, tensor] : moments) tensor = tensor.to(at::Device(device));
    return trainer->optimizer_->Restore(trainer->scorer_.leaves(), moments, steps);
  });
  if (!restored.ok()) return restored.WithContext(dir + kAdapterOptimizerFile);
  return trainer;
}

double AdapterTrainer::PassPart(std::span<const TokenRow> rows, const TokenLoss& loss,
                                bool gradients, TokenLossResult& result) {
  const PackedRows packed = PackRows(rows, loss, scorer_.device());
  const PolicyScores scores = scorer_.Score(packed.micro, gradients);
  const at::AutoGradMode mode(gradients);
  const Tensor total = ComputeTokenLoss(loss, LossInput(packed, scores.logprobs, rows.size()));
  if (gradients) scorer_.Backward(total, scores);
  const Tensor host = HostCopy(scores.logprobs.detach(), at::kFloat);
  const float* from = host.data_ptr<float>();
  for (const TokenRow& row : rows) {
    result.logprobs.emplace_back(from, from + row.targets.size());
    from += row.targets.size();
  }
  return total.item<double>();
}

Result<TokenLossResult> AdapterTrainer::Pass(std::span<const TokenRow> rows, const TokenLoss& loss,
                                             bool gradients) {
  return CatchTorch<TokenLossResult>("forward and backward", [&]() -> Result<TokenLossResult> {
    TokenLossResult result;
    for (size_t first = 0; first < rows.size();) {
      size_t last = first;
      for (int64_t tokens = 0; last < rows.size(); ++last) {
        tokens += static_cast<int64_t>(rows[last].targets.size());
        if (last > first && tokens > options_.microbatch_tokens) break;
      }
      result.loss += PassPart(rows.subspan(first, last - first), loss, gradients, result);
      first = last;
    }
    if (!std::isfinite(result.loss)) return Internal("the loss is not a finite number");
    return result;
  });
}

// AdamW keeps its rates for life; the moments go on with another.
void AdapterTrainer::TakeRates(const AdamRates& rates) {
  if (adamw_.beta1 == rates.beta1 && adamw_.beta2 == rates.beta2 && adamw_.eps == rates.eps &&
      adamw_.weight_decay == rates.weight_decay) {
    return;
  }
  adamw_.beta1 = rates.beta1;
  adamw_.beta2 = rates.beta2;
  adamw_.eps = rates.eps;
  adamw_.weight_decay = rates.weight_decay;
  auto next = std::make_unique<AdamW>(adamw_);
  const Status moved =
      next->Restore(scorer_.leaves(), optimizer_->SharedState(), optimizer_->steps());
  TM_CHECK(moved.ok(), moved.message());
  optimizer_ = std::move(next);
}

Result<double> AdapterTrainer::Step(const AdamRates& rates) {
  return CatchTorch<double>("an optimizer step", [&]() -> Result<double> {
    const double norm = scorer_.GradNorm();
    if (!std::isfinite(norm)) {
      scorer_.ZeroGrad();
      return Internal("the gradient is not a finite number; the weights are unchanged");
    }
    TakeRates(rates);
    const bool clips = rates.clip_norm > 0 && norm > rates.clip_norm;
    optimizer_->Step(scorer_.leaves(), rates.learning_rate, clips ? rates.clip_norm / norm : 1.0);
    scorer_.ZeroGrad();
    return norm;
  });
}

void AdapterTrainer::ClearGradient() {
  scorer_.ZeroGrad();
}

Result<std::shared_ptr<const PolicyWeights>> AdapterTrainer::Snapshot() const {
  return scorer_.model().Snapshot();
}

Status AdapterTrainer::Save(const std::string& dir, bool optimizer) const {
  const TrainableModel& model = scorer_.model();
  CheckpointContent content;
  content.config = model.config();
  content.adapter = model.adapter()->config;
  content.parameters = model.parameters();
  if (optimizer) {
    content.optimizer = optimizer_->SharedState();
    content.state = nlohmann::ordered_json{{"optimizer_steps", optimizer_->steps()}}.dump() + "\n";
  }
  return WriteCheckpoint(content, dir, "");
}

}  // namespace tidemill
