// One LoRA adapter that is trained by somebody else's loop: passes whose gradients add up, and
// steps.
//
//   TokenRow, .. -> Pass (log-probabilities, gradients add up) -> Step (AdamW, gradients are zero
//   again)
//
// Several of them share one base, which none of them changes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/status.h"
#include "learner/token_loss.h"
#include "learner/torch/adamw.h"
#include "learner/torch/policy_scorer.h"
#include "model/torch/model.h"

namespace tidemill {

struct AdapterTrainerOptions {
  int64_t microbatch_tokens = 8192;  // the decoder runs on at once
  bool bfloat16 = false;             // multiply matrices in bfloat16 (GPU)
};

// Not thread-safe.
class AdapterTrainer {
 public:
  // Trains the adapter of `weights`, from zero moments. kInvalid: they carry none.
  static Result<std::unique_ptr<AdapterTrainer>> New(std::shared_ptr<const PolicyWeights> weights,
                                                     const AdapterTrainerOptions& options);
  // Where Save left one, on this base. With `optimizer`, also its moments. kNotFound, kInvalid and
  // kCorrupt name the file.
  static Result<std::unique_ptr<AdapterTrainer>> Load(
      const std::string& dir, const std::shared_ptr<const PolicyWeights>& base, bool optimizer,
      const AdapterTrainerOptions& options);

  // The log-probabilities of all targets, and with `gradients` the gradient of the loss added to
  // what is there. The rows must have passed CheckTokenRow. After a failure part of the gradient
  // may have been added: ClearGradient.
  Result<TokenLossResult> Pass(std::span<const TokenRow> rows, const TokenLoss& loss,
                               bool gradients);
  // One update; the gradient is zero afterwards. Returns its norm before clipping. kInternal: the
  // gradient is not finite; nothing was changed but the gradient, which is zero.
  Result<double> Step(const AdamRates& rates);
  void ClearGradient();
  uint64_t steps() const { return optimizer_->steps(); }

  // The adapter as it is now, on the base; later steps do not change it.
  Result<std::shared_ptr<const PolicyWeights>> Snapshot() const;
  // A folder in PEFT's layout, whole or not at all; with `optimizer` also the moments.
  Status Save(const std::string& dir, bool optimizer) const;

 private:
  AdapterTrainer(std::unique_ptr<TrainableModel> model, const AdapterTrainerOptions& options);
  double PassPart(std::span<const TokenRow> rows, const TokenLoss& loss, bool gradients,
                  TokenLossResult& result);
  void TakeRates(const AdamRates& rates);

  const AdapterTrainerOptions options_;
  PolicyScorer scorer_;
  AdamWOptions adamw_;
  std::unique_ptr<AdamW> optimizer_;  // of adamw_; another one where a step asks for other rates
};

}  // namespace tidemill
