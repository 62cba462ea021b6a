// What a GPU does with a model of a given shape and random bfloat16 weights (bench/gpu_policy.h).
// Rates are by the wall clock, with the limits of an H200 beside them. docs/gpu.md has the numbers
// and what they are compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/gpu_policy.h"
#include "core/status.h"

namespace tidemill {

// Seconds, on a clock that only goes forward.
double Now();

struct GpuEngineLoad {
  GpuPolicy policy;
  int running = 256;  // sequences that decode at once; four times as many are asked for
  int prompt = 128;   // shared by groups of 8
  int least_tokens = 128;
  int most_tokens = 384;
  bool trace = false;  // add what the GPU spends the time on, in 32 steps with every place taken
};
// One JSON object: tokens a second from the first request to the last token, and while all places
// were taken; milliseconds of a step (median, 99th percentile); limits.
Result<std::string> RunGpuEngineBench(const GpuEngineLoad& load);
// Steps of the trainer on sequences the engine drew, all of `length` with `prompt` tokens of
// prompt: tokens a second, share of 790 TFLOP/s at 6 floating-point operations a parameter and
// token (4 with an adapter), mismatch between the log-probabilities of sampler and learner, peak
// memory. With `publish`, swapping weights during generation while the trainer works is measured as
// well.
struct GpuLearnerLoad {
  GpuPolicy policy;
  int sequences = 32;
  int length = 1024;
  int prompt = 128;
  int steps = 6;
  bool publish = false;
  bool recompute = false;  // activation checkpointing
  bool moments_in_blocks = false;
  bool state_on_host = false;  // the optimizer's
  int64_t token_budget = int64_t{32} * 1024;
  double product_most = 0;          // operations of a matrix product; 0: no bound
  int reserve_multiprocessors = 0;  // that the learner leaves free
  bool trace = false;               // add what the GPU spends the time of one step on
};
Result<std::string> RunGpuLearnerBench(const GpuLearnerLoad& load);
// Swapping weights during generation: milliseconds of a swap and of the steps around it. With
// `busy`, something else keeps the GPU busy meanwhile; it is called again and again until the end.
Result<std::string> RunGpuPublishBench(const GpuPolicy& policy, int running,
                                       const std::function<Status()>& busy);
// Generating and training at once, end to end: batches of whole groups of 8, four updates a batch,
// weights published after each batch. `ahead` is by how many batches generation may run ahead of
// the learner (0: they take turns); `wait` adds the time of a tool to each episode, log-normal with
// this median in seconds. Generated tokens a second of the batches that were trained on, those
// asked for at the start not counted.
struct GpuLoopLoad {
  GpuPolicy policy;
  bool small = false;  // 12 layers of 768 and a vocabulary of 4,096, not the policy's shape
  int batch = 256;
  int prompt = 128;
  int tokens = 256;
  int batches = 8;
  int ahead = 1;
  int running = 512;
  double wait = 0;
};
Result<std::string> RunGpuLoopBench(const GpuLoopLoad& load);
// One sequence of `tokens`, most of them prompt.
Result<std::string> RunGpuLongBench(const GpuPolicy& policy, int tokens);
// Attention of a layer over packed sequences, all of 1,024 tokens and of 512 to 1,024, by each
// operation of libtorch that computes it: microseconds forward and backward, on the GPU and of the
// host that launches it, and of the host for a size it has not seen; how far the result and the
// three gradients are from flash attention's; which one is right and takes least.
Result<std::string> RunGpuAttentionBench(const GpuPolicy& policy, int sequences);

}  // namespace tidemill
