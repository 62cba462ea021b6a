// The policy network: a decoder (model/layer_plan.h) as named tensors and one differentiable
// forward.
//
//   HF directory -> PolicyWeights (immutable, shared) -> TrainableModel (leaves) -> Snapshot() ->
//   PolicyWeights PackedBatch -> ForwardHidden -> TokenLogprobs
//
// Tensors carry their device and type; nothing here asks whether it is a CPU. Functions that return
// a Status or Result catch what libtorch throws; ForwardHidden, Logits and TokenLogprobs let it
// through, since the learner runs them inside its own catch.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "model/expected_tensors.h"
#include "model/model_config.h"
#include "model/torch/lora.h"
#include "model/torch/named_tensors.h"
#include "model/weights.h"

namespace tidemill {

struct DrawSupports;  // model/torch/draw_supports.h

// y = x Wᵀ + b, and with an adapter + scale · (x Aᵀ) Bᵀ. Undefined bias or lora_a: without.
struct LinearTensors {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor lora_a;
  at::Tensor lora_b;
  double lora_scale = 0;
};

// The experts of a layer. An adapter on them has the layout of PEFT's: with E experts and rank r,
// rows e r .. e r + r - 1 of A and columns e, E + e, 2 E + e .. of B belong to expert e.
struct ExpertTensors {
  struct Expert {
    at::Tensor gate, up, down;
  };
  struct LowRank {
    at::Tensor a, b;  // undefined: there is none
    double scale = 0;
    // Those of one expert.
    LinearTensors Of(int64_t expert, int64_t experts) const;
  };
  at::Tensor router;  // undefined: the layer has a dense part
  at::Tensor bias;    // of the router's choice; undefined: none
  std::vector<Expert> experts;
  LowRank gate_up, down;  // the first gives the gate's numbers and behind them those of up
};

// Norms are undefined where the plan has none.
struct LayerTensors {
  at::Tensor attention_in;
  LinearTensors q, k, v, o;
  at::Tensor q_norm, k_norm;
  at::Tensor attention_out;
  at::Tensor mlp_in;
  LinearTensors gate, up, down;  // undefined where there are experts
  ExpertTensors experts;
  at::Tensor mlp_out;
};

// W + scale · BA in W's type; W itself without an adapter.
at::Tensor MergedLinear(const LinearTensors& linear);

struct CudaLeaves;
struct CudaAdapter;

// The tensors of a model by their place in it. `head` is `embed` where they are tied.
struct ModelTensorsView {
  at::Tensor embed;
  std::vector<LayerTensors> layers;
  at::Tensor norm;
  at::Tensor head;
  // What they, or those of their adapter, are parts of; only in training on a GPU.
  std::shared_ptr<const CudaLeaves> leaves;
  std::shared_ptr<const CudaAdapter> adapter;
  double product_most = 0;  // operations of one matrix product in training on a GPU; 0: no bound
};

// What an adapter has for the experts of one module; undefined tensors: nothing.
ExpertTensors::LowRank ExpertLowRank(const LoraAdapter& adapter, const std::string& module);

// Puts named tensors in their places. kInvalid names the tensor that is missing, too many or of
// another shape. `adapter` may be null.
Result<ModelTensorsView> ArrangeTensors(const ModelConfig& config, const NamedTensors& tensors,
                                        const LoraAdapter* adapter);

struct LoadOptions {
  std::string device = "cpu";  // "cpu", "cuda", "cuda:1"
  std::optional<Dtype> dtype;  // F32 or BF16; without: as stored
  int threads = 0;             // that read and convert; 0: one for each core
};

// One set of weights, never changed after it was made; the learner, the engine and the weight
// channel share it by pointer. An adapter rides on a base it does not change.
class PolicyWeights final : public Weights {
 public:
  // A Hugging Face directory. kNotFound, kInvalid or kCorrupt name the file or the tensor.
  static Result<std::shared_ptr<const PolicyWeights>> Load(const std::string& dir,
                                                           const LoadOptions& options = {});
  // Those of model/random_weights.h, in F32 or BF16 on the CPU. The same seed gives the same
  // weights on every machine.
  static Result<std::shared_ptr<const PolicyWeights>> NewRandom(const ModelConfig& config,
                                                                uint64_t seed,
                                                                Dtype dtype = Dtype::kF32);
  // Checks names and shapes. The tensors must not be changed afterwards.
  static Result<std::shared_ptr<const PolicyWeights>> FromTensors(const ModelConfig& config,
                                                                  NamedTensors tensors);
  // The same base with an adapter on it (replacing one that is there). kInvalid: it does not fit.
  static Result<std::shared_ptr<const PolicyWeights>> WithAdapter(
      const std::shared_ptr<const PolicyWeights>& base, std::shared_ptr<const LoraAdapter> adapter);
  // With a bias of each router's choice (ExpertsConfig::biased), zero; the same pointer where they
  // have it already. kInvalid: no experts.
  static Result<std::shared_ptr<const PolicyWeights>> WithRouterBias(
      const std::shared_ptr<const PolicyWeights>& weights);
  // Without adapter: the same pointer. With one: new weights, W + scale·BA, and no adapter.
  static Result<std::shared_ptr<const PolicyWeights>> Merged(
      const std::shared_ptr<const PolicyWeights>& weights);

  // config.json and model.safetensors (or shards) into `dir`, which is made; an adapter is not part
  // of it (SaveAdapter), nor are tokenizer files.
  Status Save(const std::string& dir) const;

  const ModelConfig& config() const { return config_; }
  const NamedTensors& tensors() const { return *tensors_; }  // of the base, by Hugging Face name
  const std::shared_ptr<const LoraAdapter>& adapter() const { return adapter_; }
  const ModelTensorsView& view() const { return view_; }

 private:
  PolicyWeights() = default;

  ModelConfig config_;
  // Shared: several adapters, one after the other, ride on one base.
  std::shared_ptr<const NamedTensors> tensors_;
  std::shared_ptr<const LoraAdapter> adapter_;
  ModelTensorsView view_;
};

// One tensor of the base as Merged would have it; the base's own where no adapter touches it.
at::Tensor MergedTensor(const PolicyWeights& weights, const std::string& name);

// Weights that came through a channel as what they are. They must be a policy's.
std::shared_ptr<const PolicyWeights> ToPolicyWeights(std::shared_ptr<const Weights> weights);

// Sequences laid end to end. Token i of the pack stands at positions[i] of its sequence; sequence s
// is [starts[s], starts[s + 1]). A token sees itself and what precedes it in its own sequence, and
// all of the sequence that this one continues: what several begin with is there once.
struct PackedBatch {
  at::Tensor tokens;             // int64 [n], on the weights' device
  at::Tensor positions;          // int64 [n], on the weights' device
  std::vector<int64_t> starts;   // first 0, last n
  std::vector<int64_t> parents;  // the sequence that s continues, which continues none, or -1;
                                 // empty: nobody continues any
  // int64 [n, DecoderPlan::ChoicesOfToken()]: the experts that tokens are given to, on the weights'
  // device; -1: the router chooses. Undefined: it chooses for all.
  at::Tensor experts;
  bool replay_experts = true;  // false: it chooses anyway, and notes compare
};

// What routers said in a pass, by layers with experts.
struct RouterNotes {
  std::vector<at::Tensor> probabilities;  // float32 [n, experts], differentiable
  std::vector<at::Tensor> chosen;         // int64 [n, chosen]
  int64_t given = 0;                      // choices that PackedBatch::experts has, of all layers
  int64_t differing = 0;                  // of these, experts that the router does not choose
};
// experts * sum over e of (choices of e / rows) * (mean probability of e), where a row is a token
// in a layer and all layers count together; 1 at best times the choices of a token. Differentiable
// in the probabilities. Zero where no layer has experts.
at::Tensor BalanceLoss(const RouterNotes& notes);

// The keys that the sequences of a pack see: those of sequence s are the tokens
// rows[starts[s] .. starts[s + 1]) of the pack, its parent's and then its own.
struct PackedKeys {
  std::vector<int64_t> rows;
  std::vector<int64_t> starts;
};
PackedKeys KeysOf(const PackedBatch& batch);

// Packs whole sequences, positions from 0. Empty ones are not allowed.
PackedBatch Pack(const std::vector<std::vector<int32_t>>& sequences,
                 const std::string& device = "cpu");

// The last hidden states after the final norm, [n, hidden]. Differentiable in every tensor of
// `view` that requires a gradient. `compute` (float32 or bfloat16) is what matrices are multiplied
// in; without it the weights' own type. Attention keeps no probabilities for the backward pass; it
// computes them again. With `recompute` only the input of each layer is kept for it, and config and
// view must outlive it. `notes`, where it is not null, is filled; not with `recompute`.
at::Tensor ForwardHidden(const ModelConfig& config, const ModelTensorsView& view,
                         const PackedBatch& batch,
                         std::optional<at::ScalarType> compute = std::nullopt,
                         bool recompute = false, RouterNotes* notes = nullptr);

// Float32 logits of given hidden states, [n, vocabulary]. For tests and short texts.
at::Tensor Logits(const ModelTensorsView& view, const at::Tensor& hidden);

struct TokenScores {
  at::Tensor logprobs;  // float32 [n]: of targets[i] under softmax(logits[i] / temperature)
  at::Tensor entropy;   // float32 [n]: of that distribution
};
// Both are differentiable in `hidden` and in the head. Logits exist for some tokens at a time
// (`chunk`, on the CPU), in the forward and again in the backward pass, never for all. On a GPU in
// bfloat16 probabilities (2 bytes each) are kept for the backward pass, unless `recompute`.
// With `supports`, one for each row, both are of the distribution over the row's set.
TokenScores TokenLogprobs(const ModelTensorsView& view, const at::Tensor& hidden,
                          const at::Tensor& targets, double temperature = 1.0, int64_t chunk = 1024,
                          bool recompute = false,
                          std::shared_ptr<const DrawSupports> supports = nullptr);

// What the learner optimizes: leaves that require gradients, in float32 or in the narrow form
// (model/torch/cuda_leaves.h). Without LoRA every tensor of the model; with it the adapter's A and
// B, the base staying as it is. Not thread-safe; Snapshot() copies, so what it gives does not
// change with later steps.
class TrainableModel {
 public:
  // A copy of `weights` in float32, or in the narrow form (on a GPU). kInvalid: they carry an
  // adapter (FromAdapter is for that), or the narrow form is not for them.
  static Result<std::unique_ptr<TrainableModel>> FromWeights(const PolicyWeights& weights,
                                                             bool narrow = false);
  // Trains the adapter of `weights`; the base is shared and frozen. kInvalid: there is none.
  static Result<std::unique_ptr<TrainableModel>> FromAdapter(
      std::shared_ptr<const PolicyWeights> weights);

  const ModelConfig& config() const { return config_; }
  // The leaves by name, in a fixed order; the optimizer changes them in place.
  NamedTensors& parameters() { return parameters_; }
  const NamedTensors& parameters() const { return parameters_; }
  const ModelTensorsView& view() const { return view_; }
  bool lora() const { return adapter_ != nullptr; }
  // On a GPU longer matrix products are cut into pieces of at most so many operations; 0: none is.
  void BoundProducts(double operations) { view_.product_most = operations; }
  // Whose tensors are parameters(); null without LoRA.
  const std::shared_ptr<const LoraAdapter>& adapter() const { return adapter_; }

  at::Tensor Forward(const PackedBatch& batch, std::optional<at::ScalarType> compute = std::nullopt,
                     bool recompute = false, RouterNotes* notes = nullptr) const;

  // The weights as they are now, for publishing and saving; of a LoRA model the frozen base
  // (shared) with a copy of the adapter. `dtype` (F32 or BF16) is what they are published in.
  Result<std::shared_ptr<const PolicyWeights>> Snapshot(Dtype dtype = Dtype::kF32) const;
  // Puts saved values back (a checkpoint). kInvalid: other names or shapes; nothing was changed
  // then.
  Status Restore(const NamedTensors& values);

 private:
  TrainableModel() = default;

  ModelConfig config_;
  NamedTensors parameters_;
  ModelTensorsView view_;                       // of parameters_ (and of the frozen base)
  std::shared_ptr<const PolicyWeights> base_;   // shared: snapshots carry it; null without LoRA
  std::shared_ptr<const LoraAdapter> adapter_;  // its tensors are the leaves; null without LoRA
};

}  // namespace tidemill
