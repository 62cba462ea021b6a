// Checkpoints: a trainer on disk, whole or not at all.
//
//   DIR/config.json, model.safetensors, tokenizer files   as Hugging Face has them (or, of an
//   adapter,
//       adapter_config.json and adapter_model.safetensors as PEFT has them)
//   DIR/optimizer.safetensors, value_head.safetensors, trainer_state.json   what going on needs
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "learner/torch/trainer.h"

namespace tidemill {

struct CheckpointInfo {
  uint64_t step = 0;
  uint64_t version = 0;
};

// Writes beside `dir` and renames: `dir` is the old or the new, never in between. `files_from` (may
// be empty) is a model directory whose tokenizer and generation files come along. On failure
// nothing is left behind.
Status SaveCheckpoint(const Trainer& trainer, const std::string& dir, const CheckpointInfo& info,
                      const std::string& files_from);

// Puts `trainer`, made from a model of the same shape with the same kind of objective, where it
// stood. On failure it is as before. kNotFound: no trainer_state.json. kCorrupt names file and
// field.
Result<CheckpointInfo> LoadCheckpoint(const std::string& dir, Trainer& trainer);

// Deletes all but the newest `keep_last` of the directories "step-N" in `folder` and the one that
// the link kBestCheckpoint names, and what interrupted saving left behind. Returns the names
// deleted.
Result<std::vector<std::string>> PruneCheckpoints(const std::string& folder, uint64_t keep_last);

// A model directory by itself, with the same care: kExists where `dir` holds something that is no
// model.
Status SaveModelDirectory(const PolicyWeights& weights, const std::string& dir,
                          const std::string& files_from);

}  // namespace tidemill
