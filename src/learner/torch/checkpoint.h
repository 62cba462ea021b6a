// Checkpoints: a trainer on disk, whole or not at all.
//
//   DIR/config.json, model.safetensors, tokenizer files   as Hugging Face has them (or, of an
//   adapter,
//       adapter_config.json and adapter_model.safetensors as PEFT has them)
//   DIR/optimizer.safetensors, value_head.safetensors, trainer_state.json   what going on needs
//   DIR/checksums.xxh3   XXH3 of every other file; `xxhsum -c checksums.xxh3` compares them
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "learner/torch/trainer.h"
#include "model/torch/host_copies.h"

namespace tidemill {

struct CheckpointInfo {
  uint64_t step = 0;
  uint64_t version = 0;
};

// What a checkpoint holds.
struct CheckpointContent {
  ModelConfig config;
  std::optional<LoraConfig> adapter;  // without: all weights are trained
  NamedTensors parameters;            // all weights, or those of the adapter
  NamedTensors value_head;            // may be empty
  NamedTensors optimizer;
  std::string state;  // trainer_state.json

  uint64_t bytes() const;  // of a copy of the tensors
};
// As the trainer stands. Shares its tensors: good until the next step.
CheckpointContent ContentOf(const Trainer& trainer, const CheckpointInfo& info);

// The same in memory of its own on the host, which steps do not change. It is taken while the
// trainer goes on: SnapshotGate (learner/snapshot_gate.h) keeps what is copied as it is.
class CheckpointCopy {
 public:
  // The trainer's thread, which may start work on a GPU afterwards. Takes memory, copies nothing;
  // what is copied lies in `memory`. Failure: there is no memory, or the GPU failed.
  static Result<CheckpointCopy> Begin(const CheckpointContent& content, CopyMemory& memory);
  // Any thread, once. What is copied must not change until it returns.
  Result<CheckpointContent> Take();

 private:
  HostCopies copies_;
  CheckpointContent content_;
};
// Both.
Result<CheckpointContent> CopyToHost(const CheckpointContent& content, CopyMemory& memory);

// Writes beside `dir` and renames: `dir` is the old or the new, never in between. `files_from` (may
// be empty) is a model directory whose tokenizer and generation files come along. On failure
// nothing is left behind.
Status WriteCheckpoint(const CheckpointContent& content, const std::string& dir,
                       const std::string& files_from);
// The same of a trainer that is not here: `fill` writes model and state into the folder it is
// given.
Status WriteCheckpointBy(const std::string& dir, const std::string& files_from,
                         const std::function<Status(const std::string& made)>& fill);
// ContentOf, written before it returns.
Status SaveCheckpoint(const Trainer& trainer, const std::string& dir, const CheckpointInfo& info,
                      const std::string& files_from);

// Whether every file is as it was written. kCorrupt names the first that is not, or is missing. A
// checkpoint of a program that wrote no checksums passes.
Status CheckCheckpoint(const std::string& dir);
// The same for its weights alone: of a checkpoint that is used as a model, people may change the
// other files. A model directory without checksums passes.
Status CheckModelWeights(const std::string& dir);

// Puts `trainer`, made from a model of the same shape with the same kind of objective, where it
// stood. On failure it is as before. kNotFound: no trainer_state.json. kCorrupt names file and
// field.
Result<CheckpointInfo> LoadCheckpoint(const std::string& dir, Trainer& trainer);

// How the checkpoints in `folder` hold moments (AdamWOptions::moments_in_blocks). Nothing: there is
// none that can be read.
std::optional<bool> SavedMomentsInBlocks(const std::string& folder);

// Deletes all but the newest `keep_last` of the directories "step-N" in `folder`, the one that the
// link kBestCheckpoint names and that of `keep_step`, and what interrupted saving left behind.
// Returns the names deleted.
Result<std::vector<std::string>> PruneCheckpoints(const std::string& folder, uint64_t keep_last,
                                                  std::optional<uint64_t> keep_step = {});

// Whether a model may be written at `dir`: nothing is there, or an empty folder, or, with
// `replace`, a model. kExists says what to do.
Status CheckModelPlace(const std::string& dir, bool replace);

// A model directory by itself, with the same care. kExists as CheckModelPlace says.
Status SaveModelDirectory(const PolicyWeights& weights, const std::string& dir,
                          const std::string& files_from, bool replace = false);

}  // namespace tidemill
