// How fast the learner trains on the CPU, against what the machine's matrix products would allow:
// both measured in one run. With one thread by its own processor time, with more by the wall clock.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "model/model_config.h"

namespace tidemill {

struct LearnerBenchOptions {
  ModelConfig config;  // vocab_size 0: the small model of the demonstration (170,000 parameters)
  int threads = 1;
  double seconds = 5;    // for each of the measurements
  uint32_t groups = 16;  // of a batch
  uint32_t members = 8;  // of a group
  uint32_t prompt_tokens = 70;
  uint32_t answer_tokens = 25;
  int64_t microbatch_tokens = 4096;
  uint64_t seed = 1;
};

struct LearnerBenchReport {
  std::string kernels;  // which of the hand-written ones
  uint64_t parameters = 0;
  double gemm_gflops = 0;              // the largest of the model's products, alone
  double limit_tokens_per_second = 0;  // gemm_gflops over 6 operations a parameter and token
  // Supervised: every row whole, loss on the answers.
  double warmup_tokens_per_second = 0;
  double warmup_utilisation = 0;  // of the limit
  // A GRPO step; its sequences' tokens a second, members of a group sharing their prompt.
  double step_tokens_per_second = 0;
  double step_computed_tokens_per_second = 0;  // those the decoder really ran on
  double step_utilisation = 0;                 // of the limit, by computed tokens
  // The same steps through libtorch's autograd, without sharing.
  double autograd_tokens_per_second = 0;
  double speedup = 0;  // step over autograd
  // The same steps with the engine's numbers (engine.exact).
  double exact_tokens_per_second = 0;

  std::string ToText() const;
  std::string ToJson() const;
};

// The model with 64 wide, 3 layers, 4 heads and 160 tokens.
ModelConfig SmallModelConfig();

// kInvalid: options that make no sense.
Result<LearnerBenchReport> RunLearnerBench(LearnerBenchOptions options);

}  // namespace tidemill
