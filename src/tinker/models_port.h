// What the server does with numbers: models that learn, and weights to sample from. The real one is
// in tinker/torch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "learner/token_loss.h"
#include "model/weights.h"
#include "tinker/sample_ask.h"
#include "tinker/train_ask.h"

namespace tidemill {

// A base that models are adapters of. Fixed while the server runs.
struct BaseModel {
  std::string name = {};       // as clients call it
  std::string folder = {};     // absolute
  std::string tokenizer = {};  // what clients load theirs from
  std::string family = {};
  int64_t vocabulary = 0;
  int32_t context = 0;
  std::vector<TokenId> end_ids = {};  // that end a sample where it says nothing about stops
};

// A new adapter.
struct AdapterShape {
  int64_t rank = 8;
  uint64_t seed = 0;
  bool attention = true, mlp = true;
};

inline constexpr double kAdapterAlpha = 32;  // the wire has no word for it

// Models are named by their ids. All but the last two functions belong to one thread.
class ModelsPort {
 public:
  virtual ~ModelsPort() = default;

  // Called once by that thread, before all else.
  virtual void Begin() = 0;

  virtual Status Make(const std::string& model, const BaseModel& base,
                      const AdapterShape& shape) = 0;
  // From a folder that Save wrote; in place of a model that is there.
  virtual Status Load(const std::string& model, const BaseModel& base, const std::string& folder,
                      bool optimizer) = 0;
  virtual bool Has(const std::string& model) const = 0;
  virtual size_t count() const = 0;
  virtual void Drop(const std::string& model) = 0;

  // As AdapterTrainer's. The model must be there.
  virtual Result<TokenLossResult> Pass(const std::string& model, const TrainAsk& ask) = 0;
  virtual Result<double> Step(const std::string& model, const AdamRates& rates) = 0;
  virtual void ClearGradient(const std::string& model) = 0;
  virtual Status Save(const std::string& model, const std::string& folder, bool optimizer) = 0;
  virtual Result<std::shared_ptr<const Weights>> Snapshot(const std::string& model) = 0;

  // Any thread. The adapter of a folder on its base, for an engine.
  virtual Result<std::shared_ptr<const Weights>> ReadSampler(const BaseModel& base,
                                                             const std::string& folder) = 0;
  // Any thread. Null weights: the base alone.
  virtual Result<PromptScores> Score(const BaseModel& base, std::shared_ptr<const Weights> weights,
                                     const std::vector<TokenId>& prompt, uint32_t top) = 0;
};

}  // namespace tidemill
