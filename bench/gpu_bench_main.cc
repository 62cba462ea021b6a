#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>

#include "bench/gpu_bench.h"

namespace {

using tidemill::Result;
using Bench = std::function<Result<std::string>(int)>;

Result<std::string> TrainLong(int tokens, bool recompute) {
  return tidemill::RunGpuLearnerBench(
      {.sequences = 1, .length = tokens, .prompt = tokens - 512, .recompute = recompute});
}

// As many sequences at once as may be asked for, up to what the engine is fastest with.
Result<std::string> WithoutTools(int ahead) {
  return tidemill::RunGpuLoopBench({.ahead = ahead, .running = std::min(256 * (ahead + 1), 1024)});
}

Result<std::string> WithTools(int ahead) {
  return tidemill::RunGpuLoopBench(
      {.small = true, .batches = ahead > 0 ? 16 : 2, .ahead = ahead, .running = 1024, .wait = 1});
}

const std::map<std::string, Bench>& Benches() {
  static const std::map<std::string, Bench> benches = {
      {"engine", [](int n) { return tidemill::RunGpuEngineBench({.running = n}); }},
      {"learner", [](int n) { return tidemill::RunGpuLearnerBench({.sequences = n}); }},
      {"both",
       [](int n) { return tidemill::RunGpuLearnerBench({.sequences = n, .publish = true}); }},
      {"engine-trace",
       [](int n) { return tidemill::RunGpuEngineBench({.running = n, .trace = true}); }},
      {"learner-trace",
       [](int n) { return tidemill::RunGpuLearnerBench({.sequences = n, .trace = true}); }},
      {"publish", [](int n) { return tidemill::RunGpuPublishBench(n, {}); }},
      {"long", [](int n) { return tidemill::RunGpuLongBench(n); }},
      {"train-long", [](int n) { return TrainLong(n, false); }},
      {"train-recompute", [](int n) { return TrainLong(n, true); }},
      {"grpo", WithoutTools},
      {"grpo-tools", WithTools}};
  return benches;
}

}  // namespace

// gpu_bench engine 64 256 1024 | learner 16 32 | both 32 | publish 256 | long 32768 |
// train-long 32768 | train-recompute 32768 | grpo AHEAD... | grpo-tools AHEAD...
int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto bench = Benches().find(what);
  if (argc < 3 || bench == Benches().end()) {
    std::cerr << "usage: gpu_bench NAME NUMBER..., NAME one of";
    for (const auto& [name, run] : Benches()) std::cerr << " " << name;
    std::cerr << "\n";
    return 2;
  }
  int failed = 0;
  for (int i = 2; i < argc; ++i) {
    int number = -1;
    const char* end = argv[i] + std::strlen(argv[i]);
    const bool whole = std::from_chars(argv[i], end, number).ptr == end;
    if (!whole || number < (what.starts_with("grpo") ? 0 : 1)) {
      std::cerr << "gpu_bench: \"" << argv[i] << "\" is no number " << what << " can be given\n";
      return 2;
    }
    const Result<std::string> result = bench->second(number);
    if (result.ok()) {
      std::cout << *result << std::endl;
    } else {
      std::cerr << "gpu_bench: " << result.status().message() << "\n";
      failed = 1;
    }
  }
  return failed;
}
