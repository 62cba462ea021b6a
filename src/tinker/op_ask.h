// The JSON bodies of operations on a model, but for forward_backward (train_ask.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"
#include "gateway/wire_json.h"
#include "learner/token_loss.h"

namespace tidemill {

// Which operation of which model. kInvalid names the field.
struct OpPlace {
  std::string model;
  uint64_t seq = 0;
};
Result<OpPlace> ReadOpPlace(const WireJson& json);

// optim_step. kInvalid names the field, or an optimizer that is not Adam.
Result<AdamRates> ReadStepAsk(const WireJson& json);

// save_weights and save_weights_for_sampler.
struct SaveAsk {
  std::string name;  // of a checkpoint; empty: an ephemeral sampler
  std::optional<int64_t> ttl_s;
  bool overwrite = false;
  std::string metadata;  // JSON object of strings
  int64_t sampler = -1;  // number of the ephemeral sampler
  bool inflight = false;
};
Result<SaveAsk> ReadSaveAsk(const WireJson& json, bool for_sampler);

// Takes the metadata of a body, an object of strings, as JSON text. kInvalid: it is something else,
// or more than 64 KiB.
Result<std::string> ReadMetadata(const WireJson& json);

// "tinker://MODEL/weights/NAME".
struct CheckpointPath {
  std::string model;
  bool training = true;
  std::string name;

  // "weights/NAME"
  std::string Id() const;
  std::string Text() const;
};
Result<CheckpointPath> ParseCheckpointPath(std::string_view path);
// By what stands behind the scheme and the model, "weights/NAME".
Result<CheckpointPath> ParseCheckpointId(std::string_view model, std::string_view id);
// kInvalid: no name of letters, digits, '-', '_' and '.', at most 128, that begins with none of the
// last.
Status CheckCheckpointName(std::string_view name);

}  // namespace tidemill
