#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "bench/gpu_arguments.h"
#include "bench/gpu_bench.h"

namespace tidemill {
namespace {

using Bench = std::function<Result<std::string>(const GpuArguments&, int)>;

GpuLearnerLoad LearnerLoad(const GpuArguments& arguments, int sequences) {
  return {.policy = arguments.policy,
          .sequences = sequences,
          .recompute = arguments.recompute,
          .moments_in_blocks = arguments.moments_in_blocks,
          .state_on_host = arguments.state_on_host,
          .token_budget = arguments.token_budget,
          .product_most = arguments.product_most,
          .reserve_multiprocessors = arguments.reserve_multiprocessors};
}

Result<std::string> Learner(const GpuArguments& arguments, int sequences) {
  return RunGpuLearnerBench(LearnerLoad(arguments, sequences));
}

Result<std::string> Both(const GpuArguments& arguments, int sequences) {
  GpuLearnerLoad load = LearnerLoad(arguments, sequences);
  load.publish = true;
  return RunGpuLearnerBench(load);
}

Result<std::string> LearnerTrace(const GpuArguments& arguments, int sequences) {
  GpuLearnerLoad load = LearnerLoad(arguments, sequences);
  load.trace = true;
  return RunGpuLearnerBench(load);
}

Result<std::string> TrainLong(const GpuArguments& arguments, int tokens, bool recompute) {
  GpuLearnerLoad load = LearnerLoad(arguments, 1);
  load.length = tokens;
  load.prompt = tokens - 512;
  load.recompute = recompute;
  return RunGpuLearnerBench(load);
}

Result<std::string> Decode(const GpuArguments& arguments, int running, bool trace) {
  return RunGpuEngineBench({.policy = arguments.policy, .running = running, .trace = trace});
}

// As many sequences at once as may be asked for, up to what the engine is fastest with.
Result<std::string> WithoutTools(const GpuArguments& arguments, int ahead) {
  return RunGpuLoopBench(
      {.policy = arguments.policy, .ahead = ahead, .running = std::min(256 * (ahead + 1), 1024)});
}

Result<std::string> WithTools(const GpuArguments& arguments, int ahead) {
  return RunGpuLoopBench({.policy = arguments.policy,
                          .small = true,
                          .batches = ahead > 0 ? 16 : 2,
                          .ahead = ahead,
                          .running = 1024,
                          .wait = 1});
}

const std::map<std::string, Bench>& Benches() {
  using Arguments = GpuArguments;
  static const std::map<std::string, Bench> benches = {
      {"engine", [](const Arguments& a, int n) { return Decode(a, n, false); }},
      {"engine-trace", [](const Arguments& a, int n) { return Decode(a, n, true); }},
      {"learner", Learner},
      {"learner-trace", LearnerTrace},
      {"both", Both},
      {"publish",
       [](const Arguments& a, int n) { return RunGpuPublishBench(a.policy, n, nullptr); }},
      {"long", [](const Arguments& a, int n) { return RunGpuLongBench(a.policy, n); }},
      {"attention", [](const Arguments& a, int n) { return RunGpuAttentionBench(a.policy, n); }},
      {"train-long", [](const Arguments& a, int n) { return TrainLong(a, n, false); }},
      {"train-recompute", [](const Arguments& a, int n) { return TrainLong(a, n, true); }},
      {"grpo", WithoutTools},
      {"grpo-tools", WithTools}};
  return benches;
}

int Usage(const std::string& why) {
  std::cerr << "gpu_bench: " << why << "\n" << kGpuBenchUsage << "  NAME: one of";
  for (const auto& [name, run] : Benches()) std::cerr << " " << name;
  std::cerr << "\n";
  return 2;
}

int Run(const GpuArguments& arguments) {
  const auto bench = Benches().find(arguments.bench);
  if (bench == Benches().end()) return Usage("there is no benchmark " + arguments.bench);
  const int least = arguments.bench.starts_with("grpo") ? 0 : 1;
  int failed = 0;
  for (const int number : arguments.numbers) {
    if (number < least)
      return Usage(arguments.bench + " takes numbers from " + std::to_string(least));
    const Result<std::string> result = bench->second(arguments, number);
    if (result.ok()) {
      std::cout << *result << std::endl;
    } else {
      std::cerr << "gpu_bench: " << result.status().message() << "\n";
      failed = 1;
    }
  }
  return failed;
}

}  // namespace
}  // namespace tidemill

// gpu_bench engine 64 256 1024 | learner 16 32 | both 32 | publish 256 | long 32768 | attention 32
// | train-long 32768 | train-recompute 32768 | grpo AHEAD... | grpo-tools AHEAD...
int main(int argc, char** argv) {
  const std::span<char* const> words(argv + 1, static_cast<size_t>(std::max(argc - 1, 0)));
  const tidemill::Result<tidemill::GpuArguments> arguments = tidemill::ParseGpuArguments(words);
  if (!arguments.ok()) return tidemill::Usage(arguments.status().message());
  return tidemill::Run(*arguments);
}
