#include <cstdlib>
#include <cstring>
#include <iostream>

#include "bench/gpu_bench.h"

namespace {

int Say(const tidemill::Result<std::string>& result) {
  if (!result.ok()) {
    std::cerr << "gpu_bench: " << result.status().message() << "\n";
    return 1;
  }
  std::cout << *result << std::endl;
  return 0;
}

}  // namespace

// gpu_bench engine 64 256 1024 | learner 16 32 | both 32 | publish 256 | long 32768 |
// train-long 32768 | train-recompute 32768
int main(int argc, char** argv) {
  int failed = 0;
  const std::string what = argc > 1 ? argv[1] : "";
  if (argc < 3 ||
      (what != "engine" && what != "publish" && what != "long" && what != "learner" &&
       what != "both" && what != "profile" && what != "train-long" && what != "train-recompute")) {
    std::cerr << "usage: gpu_bench engine|learner|both|profile|publish|long|train-long|"
                 "train-recompute NUMBER...\n";
    return 2;
  }
  for (int i = 2; i < argc; ++i) {
    const int number = std::atoi(argv[i]);
    if (number < 1) {
      std::cerr << "gpu_bench: \"" << argv[i] << "\" is not a positive number\n";
      return 2;
    }
    if (what == "engine") failed |= Say(tidemill::RunGpuEngineBench({.running = number}));
    if (what == "learner") failed |= Say(tidemill::RunGpuLearnerBench({.sequences = number}));
    if (what == "profile") failed |= Say(tidemill::RunGpuProfile(number));
    if (what == "both") {
      failed |= Say(tidemill::RunGpuLearnerBench({.sequences = number, .publish = true}));
    }
    if (what == "train-long" || what == "train-recompute") {
      failed |= Say(tidemill::RunGpuLearnerBench({.sequences = 1,
                                                  .length = number,
                                                  .prompt = number - 512,
                                                  .recompute = what == "train-recompute"}));
    }
    if (what == "publish") failed |= Say(tidemill::RunGpuPublishBench(number, {}));
    if (what == "long") failed |= Say(tidemill::RunGpuLongBench(number));
  }
  return failed;
}
