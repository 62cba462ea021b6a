#include "tinker/torch/torch_models.h"

#include <ATen/Parallel.h>

#include <utility>

#include "model/torch/score.h"

namespace tidemill {

const std::shared_ptr<const PolicyWeights>& TorchModels::Base(const BaseModel& base) const {
  const auto it = bases_.find(base.name);
  TM_CHECK(it != bases_.end(), base.name);
  return it->second;
}

AdapterTrainer& TorchModels::At(const std::string& model) {
  const auto it = models_.find(model);
  TM_CHECK(it != models_.end(), model);
  return *it->second;
}

void TorchModels::Begin() {
  at::set_num_threads(threads_);
}

Status TorchModels::Make(const std::string& model, const BaseModel& base,
                         const AdapterShape& shape) {
  const auto& weights = Base(base);
  LoraConfig config;
  config.rank = shape.rank;
  config.alpha = kAdapterAlpha;
  config.base_model = base.name;
  if (shape.attention) config.target_modules = {"q_proj", "k_proj", "v_proj", "o_proj"};
  config.experts = shape.mlp && weights->config().experts.count > 0;
  if (shape.mlp) {
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      config.target_modules.emplace_back(name);
    }
  }
  TM_ASSIGN_OR_RETURN(auto adapter, NewAdapter(config, weights->config(), shape.seed,
                                               weights->view().embed.device().str()));
  TM_ASSIGN_OR_RETURN(auto policy, PolicyWeights::WithAdapter(weights, std::move(adapter)));
  TM_ASSIGN_OR_RETURN(models_[model], AdapterTrainer::New(std::move(policy), options_));
  return Ok();
}

Status TorchModels::Load(const std::string& model, const BaseModel& base, const std::string& folder,
                         bool optimizer) {
  TM_ASSIGN_OR_RETURN(auto trainer, AdapterTrainer::Load(folder, Base(base), optimizer, options_));
  models_[model] = std::move(trainer);
  return Ok();
}

Result<TokenLossResult> TorchModels::Pass(const std::string& model, const TrainAsk& ask) {
  return At(model).Pass(ask.rows, ask.loss, ask.gradients);
}

Result<double> TorchModels::Step(const std::string& model, const AdamRates& rates) {
  return At(model).Step(rates);
}

void TorchModels::ClearGradient(const std::string& model) {
  At(model).ClearGradient();
}

Status TorchModels::Save(const std::string& model, const std::string& folder, bool optimizer) {
  return At(model).Save(folder, optimizer);
}

Result<std::shared_ptr<const Weights>> TorchModels::Snapshot(const std::string& model) {
  TM_ASSIGN_OR_RETURN(auto weights, At(model).Snapshot());
  return std::shared_ptr<const Weights>(std::move(weights));
}

Result<std::shared_ptr<const Weights>> TorchModels::ReadSampler(const BaseModel& base,
                                                                const std::string& folder) {
  const auto& weights = Base(base);
  TM_ASSIGN_OR_RETURN(auto adapter,
                      LoadAdapter(folder, weights->config(), weights->view().embed.device().str()));
  TM_ASSIGN_OR_RETURN(auto policy, PolicyWeights::WithAdapter(weights, std::move(adapter)));
  return std::shared_ptr<const Weights>(std::move(policy));
}

Result<PromptScores> TorchModels::Score(const BaseModel& base,
                                        std::shared_ptr<const Weights> weights,
                                        const std::vector<TokenId>& prompt, uint32_t top) {
  const auto policy = weights == nullptr ? Base(base) : ToPolicyWeights(std::move(weights));
  PromptScores scores;
  if (prompt.size() < 2) return scores;  // nothing is predicted
  TM_ASSIGN_OR_RETURN(TopScores scored, ScoreWithTop(*policy, prompt, static_cast<int>(top)));
  scores.logprobs = std::move(scored.logprobs);
  for (const auto& row : scored.top) {
    auto& to = scores.top.emplace_back();
    for (const auto& [id, logprob] : row) to.push_back({.id = id, .logprob = logprob});
  }
  return scores;
}

}  // namespace tidemill
