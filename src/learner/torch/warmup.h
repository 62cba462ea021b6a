// Supervised training from demonstrations, so that reinforcement has something to begin with.
//
//   demonstrations.jsonl -> sequences, some of them held out -> AdamW until the held-out loss stops
//   falling -> the best weights as a model directory
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/status.h"
#include "learner/schedule.h"
#include "learner/torch/adamw.h"
#include "model/model_config.h"

namespace tidemill {

struct WarmupOptions {
  std::string demonstrations;  // JSONL (learner/torch/demonstrations.h)
  std::string model;           // model directory to begin with; empty: from nothing, by `config`
  std::optional<ModelConfig> config;
  std::string tokenizer;            // directory of tokenizer.json; empty: `model`
  std::string output;               // model directory to make; empty: nothing is written
  bool resume = false;              // go on with the warmup to `output` that was interrupted
  bool replace = false;             // what is at `output`, or was interrupted there, may go
  double save_seconds = 300;        // between two states that an interrupted warmup goes on from
  std::function<bool()> stop = {};  // asked after each update; true: save and end, to go on later
  double held_out_fraction = 0.1;
  uint64_t held_out_max = 1000;      // sequences
  int64_t batch_tokens = 4096;       // of an update
  int64_t microbatch_tokens = 4096;  // the decoder runs on at once
  LearningRateSchedule schedule{.peak = 2e-3, .warmup_steps = 50};
  AdamWOptions adamw{.beta1 = 0.9, .beta2 = 0.98, .weight_decay = 0.1, .decay_matrices_only = true};
  double grad_clip = 1.0;
  uint64_t max_steps = 1'000'000;
  double max_seconds = 0;  // of this process; 0: no limit
  uint64_t evaluate_every_steps = 50;
  uint64_t patience = 6;  // evaluations without a better one before it stops; 0: never
  uint64_t cuts = 0;  // so often it goes on from the best weights at a fifth of the rate instead
  bool keep_last = false;           // write the last weights, not those of the least held-out loss
  double least_improvement = 1e-3;  // of the held-out loss, as a fraction, to count as better
  bool train_prompt = false;        // the prompt's tokens count as well
  bool append_end = true;           // text is ended with the model's end token
  int threads = 1;                  // libtorch's
  std::string device = "cpu";       // "cuda:0": matrices are multiplied in bfloat16 there
  uint64_t seed = 0;
};

struct WarmupProgress {
  uint64_t step = 0;
  uint64_t epoch = 0;
  uint64_t tokens = 0;  // of the sequences gone through so far
  double seconds = 0;
  double tokens_per_second = 0;
  double train_loss = 0;     // mean since the last report
  double held_out_loss = 0;  // mean negative log-likelihood of a completion's token
  double best_held_out_loss = 0;
};
// Called after every evaluation. False: stop, keeping the best so far.
using WarmupCallback = std::function<bool(const WarmupProgress&)>;

struct WarmupReport {
  uint64_t examples = 0;
  uint64_t held_out = 0;
  uint64_t parameters = 0;
  double first_held_out_loss = 0;  // before the first step
  double best_held_out_loss = 0;
  uint64_t best_step = 0;
  WarmupProgress last;
  // "held-out loss stopped falling", "step limit", kStoppedByClock or "interrupted".
  std::string stopped;
  bool unfinished = false;  // WarmupOptions::stop ended it: no model was written, it can go on
};
inline constexpr const char* kStoppedByClock = "time limit";

Status ValidateWarmupOptions(const WarmupOptions& options);

// kInvalid: options, demonstrations (with line numbers) or a model that cannot be used. kExists:
// there is something at `output`, or an interrupted warmup to it. kInternal: a loss that is no
// number; nothing is written then. Runs in the calling thread.
Result<WarmupReport> RunWarmup(const WarmupOptions& options, const WarmupCallback& callback = {});

}  // namespace tidemill
