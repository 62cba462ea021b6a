#include "learner/torch/policy_scorer.h"

#include "model/torch/aten.h"

#include <cmath>

#include "learner/torch/adamw.h"
#include "learner/torch/exact_pass.h"
#include "model/torch/cuda_leaves.h"

namespace tidemill {
namespace {

using at::Tensor;

constexpr int64_t kLogitsInMemory = int64_t{16} << 20;  // most, for the hand-written head

std::optional<at::ScalarType> ComputeType(bool bfloat16) {
  if (!bfloat16) return std::nullopt;
  return at::kBFloat16;
}

// `exact`: null, or with `fused`. Over what truncation or a constraint left, sums have another
// order than those of the draw.
TokenScores ScoreHidden(const ModelTensorsView& view, const Tensor& hidden,
                        const MicroTensors& micro, bool fused, bool recompute,
                        const ExactPass* exact) {
  // softmax((h / T) W): dividing the hidden state is dividing the logits.
  const bool mixed = micro.temperatures.defined();
  const Tensor scaled =
      mixed ? hidden / micro.temperatures.to(hidden.scalar_type()).unsqueeze(1) : hidden;
  const double temperature = mixed ? 1.0 : micro.temperature;
  if (micro.supports != nullptr) exact = nullptr;
  if (fused && hidden.size(0) * view.head.size(0) <= kLogitsInMemory && (!mixed || !exact)) {
    return FusedTokenScores(view, scaled, micro.targets, temperature, micro.supports.get(), exact);
  }
  constexpr int64_t kChunk = 1024;
  TokenScores scores =
      TokenLogprobs(view, scaled, micro.targets, temperature, kChunk, recompute, micro.supports);
  if (exact == nullptr) return scores;
  scores.logprobs =
      WithGradientOf(exact->Logprobs(hidden, micro.targets, micro.temperature, micro.temperatures),
                     scores.logprobs);
  return scores;
}

}  // namespace

PolicyScorer::PolicyScorer(std::unique_ptr<TrainableModel> model, Options options)
    : model_(std::move(model)), options_(options) {
  TM_CHECK(!model_->parameters().empty(), "a model has parameters");
  leaves_ = model_->parameters();
  device_ = leaves_.begin()->second.device().str();
  if (options_.fused && !options_.bfloat16 && !options_.recompute &&
      FusedDecoder::Supports(*model_)) {
    fused_ = std::make_unique<FusedDecoder>(*model_, options_.exact);
  }
  if (options_.value_head) {
    const auto leaf = [&](at::IntArrayRef shape) {
      return at::zeros(shape, at::TensorOptions().dtype(at::kFloat).device(at::Device(device_)))
          .set_requires_grad(true);
    };
    leaves_["value_head.weight"] = leaf({1, model_->config().hidden_size});
    leaves_["value_head.bias"] = leaf({1});
  }
}

PolicyScores PolicyScorer::Score(const MicroTensors& micro, bool gradients) {
  const at::AutoGradMode mode(gradients);
  PolicyScores scores;
  Tensor hidden;
  if (fused_ != nullptr) {
    scores.hidden = fused_->Forward(micro.pack, micro.rows);
    if (gradients) scores.hidden.set_requires_grad(true);
    // Members of a group begin at the same place: then there are fewer rows than tokens.
    hidden = micro.rows.size(0) == micro.row_of.size(0) && micro.sequences.size() == 1
                 ? scores.hidden
                 : scores.hidden.index_select(0, micro.row_of);
  } else {
    RouterNotes notes;
    PackedBatch packed = micro.packed;
    packed.replay_experts = options_.replay_experts;
    hidden = model_
                 ->Forward(packed, ComputeType(options_.bfloat16), options_.recompute,
                           options_.recompute ? nullptr : &notes)
                 .index_select(0, micro.rows.index_select(0, micro.row_of));
    if (!notes.probabilities.empty()) scores.balance = BalanceLoss(notes);
    for (size_t i = 0; i < notes.chosen.size(); ++i) {
      scores.expert_counts.push_back(
          at::bincount(notes.chosen[i].flatten(), {}, notes.probabilities[i].size(1))
              .to(at::kDouble));
    }
    scores.experts_given = static_cast<double>(notes.given);
    scores.experts_differing = static_cast<double>(notes.differing);
  }
  const TokenScores token =
      ScoreHidden(model_->view(), hidden, micro, fused_ != nullptr, options_.recompute,
                  fused_ != nullptr ? fused_->exact() : nullptr);
  scores.logprobs = token.logprobs;
  scores.entropy = token.entropy;
  if (options_.value_head) {
    scores.values = at::linear(hidden.to(at::kFloat), leaves_.at("value_head.weight"),
                               leaves_.at("value_head.bias"))
                        .squeeze(1);
  }
  return scores;
}

void PolicyScorer::Backward(const Tensor& loss, const PolicyScores& scores) {
  loss.backward();
  if (fused_ != nullptr) fused_->Backward(scores.hidden.grad());
}

void PolicyScorer::LeavesChange() {
  if (fused_ != nullptr) fused_->WeightsChanged();
}

void PolicyScorer::ZeroGrad() {
  const at::NoGradGuard no_grad;
  if (const auto& packed = model_->view().leaves; packed != nullptr) {
    Tensor gradients = packed->gradients;
    gradients.zero_();
    NamedTensors rest = ValueHead();
    tidemill::ZeroGrad(rest);
  } else {
    tidemill::ZeroGrad(leaves_);
  }
}

double PolicyScorer::GradNorm() const {
#ifdef TIDEMILL_CUDA
  if (const auto& packed = model_->view().leaves; packed != nullptr) {
    return std::hypot(GradientNorm(packed->gradients), tidemill::GradNorm(ValueHead()));
  }
#endif
  return tidemill::GradNorm(leaves_);
}

NamedTensors PolicyScorer::ValueHead() const {
  NamedTensors head;
  for (const auto& [name, leaf] : leaves_) {
    if (name.starts_with("value_head.")) head.emplace(name, leaf);
  }
  return head;
}

Tensor ScoreFixed(const PolicyWeights& weights, const Microbatch& micro, bool bfloat16) {
  const at::NoGradGuard no_grad;
  const std::string device = weights.view().embed.device().str();
  MicroTensors tensors = MakeMicroTensors(micro, /*fused=*/false, device);
  tensors.packed.experts = at::Tensor();  // these are other routers
  const Tensor hidden =
      ForwardHidden(weights.config(), weights.view(), tensors.packed, ComputeType(bfloat16))
          .index_select(0, tensors.rows.index_select(0, tensors.row_of));
  return ScoreHidden(weights.view(), hidden, tensors, false, true, nullptr).logprobs;
}

}  // namespace tidemill
