// Models as adapters that learn on shared bases, by libtorch.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "learner/torch/adapter_trainer.h"
#include "model/torch/model.h"
#include "tinker/models_port.h"

namespace tidemill {

class TorchModels final : public ModelsPort {
 public:
  // A base by its name, before the first model.
  using Bases = std::map<std::string, std::shared_ptr<const PolicyWeights>>;
  // `threads`: libtorch's, of the thread that models belong to.
  TorchModels(Bases bases, const AdapterTrainerOptions& options, int threads)
      : bases_(std::move(bases)), options_(options), threads_(threads) {}

  void Begin() override;
  Status Make(const std::string& model, const BaseModel& base, const AdapterShape& shape) override;
  Status Load(const std::string& model, const BaseModel& base, const std::string& folder,
              bool optimizer) override;
  bool Has(const std::string& model) const override { return models_.contains(model); }
  size_t count() const override { return models_.size(); }
  void Drop(const std::string& model) override { models_.erase(model); }
  Result<TokenLossResult> Pass(const std::string& model, const TrainAsk& ask) override;
  Result<double> Step(const std::string& model, const AdamRates& rates) override;
  void ClearGradient(const std::string& model) override;
  Status Save(const std::string& model, const std::string& folder, bool optimizer) override;
  Result<std::shared_ptr<const Weights>> Snapshot(const std::string& model) override;
  Result<std::shared_ptr<const Weights>> ReadSampler(const BaseModel& base,
                                                     const std::string& folder) override;
  Result<PromptScores> Score(const BaseModel& base, std::shared_ptr<const Weights> weights,
                             const std::vector<TokenId>& prompt, uint32_t top) override;

 private:
  const std::shared_ptr<const PolicyWeights>& Base(const BaseModel& base) const;
  AdapterTrainer& At(const std::string& model);

  const Bases bases_;
  const AdapterTrainerOptions options_;
  const int threads_;
  std::map<std::string, std::unique_ptr<AdapterTrainer>> models_;
};

}  // namespace tidemill
