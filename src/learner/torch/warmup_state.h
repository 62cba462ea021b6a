// An interrupted warmup on disk: what going on needs. In a folder of its own beside the model that
// is to be made, whole or not at all, like a checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "learner/torch/warmup.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

// These must be the same when it goes on, or the sequences held out and those trained would mix.
struct WarmupIdentity {
  uint64_t demonstrations = 0;  // a hash over all sequences
  uint64_t seed = 0;
  double held_out_fraction = 0;
  int64_t batch_tokens = 0;
};

struct WarmupState {
  WarmupIdentity identity;
  WarmupReport report;
  uint64_t next = 0;  // sequences of the epoch gone through
  uint64_t since_better = 0;
  uint64_t cuts = 0;
  double rate_factor = 1;
  double to_beat = 0;
  double loss_sum = 0;  // since the last evaluation
  uint64_t losses = 0;
  uint64_t optimizer_steps = 0;
  NamedTensors parameters;
  NamedTensors best;
  NamedTensors moments;
};

// The folder of the model that is to be made at `output`.
std::string WarmupFolder(const std::string& output);

Status SaveWarmup(const WarmupState& state, const ModelConfig& config, const std::string& output);
// kNotFound: none was interrupted. kInvalid: it was of something else than `identity` says.
// kCorrupt: damaged.
Result<WarmupState> LoadWarmup(const std::string& output, const WarmupIdentity& identity);
// Once the model is made, or is to be made from the beginning.
void ForgetWarmup(const std::string& output);

}  // namespace tidemill
