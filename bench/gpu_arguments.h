// The command line of gpu_bench.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/gpu_policy.h"

namespace tidemill {

struct GpuArguments {
  std::string bench;
  std::vector<int> numbers;
  GpuPolicy policy;
  bool moments_in_blocks = false;
  bool state_on_host = false;
  bool recompute = false;
  int64_t token_budget = int64_t{32} * 1024;
  double product_most = 0;
  int reserve_multiprocessors = 0;
};

inline constexpr const char* kGpuBenchUsage =
    "usage: gpu_bench NAME NUMBER... [OPTION VALUE]...\n"
    "  --shape SHAPE          0.5b (default), 1.5b, 3b, 7b, 14b, 32b of examples/shapes, or a "
    "config.json\n"
    "  --rank N               LoRA rank of an adapter on all products (default: 0, all weights)\n"
    "  --moments float32|int8 the optimizer's\n"
    "  --state gpu|host       the optimizer's (host: with int8)\n"
    "  --budget TOKENS        of a microbatch (default: 32768)\n"
    "  --recompute yes|no     activation checkpointing\n"
    "  --product-tflop X      cut longer matrix products of the learner (default: 0, none)\n"
    "  --reserve N            multiprocessors that the learner leaves free (default: 0, none)\n";

// The words after the program's name. kInvalid says which word is wrong and what would be right.
Result<GpuArguments> ParseGpuArguments(std::span<char* const> words);

}  // namespace tidemill
