// The learner's bench as a program: learner_bench [seconds] [threads] [microbatch tokens]
#include <cstdio>
#include <cstdlib>

#include "bench/learner_bench.h"
#include "core/threads.h"

int main(int argc, char** argv) {
  tidemill::LearnerBenchOptions options;
  if (argc > 1) options.seconds = std::atof(argv[1]);
  if (argc > 2) options.threads = std::atoi(argv[2]);
  if (argc > 3) options.microbatch_tokens = std::atoll(argv[3]);
  tidemill::LimitBlasThreads(options.threads);
  const auto report = tidemill::RunLearnerBench(options);
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
    return 1;
  }
  std::fputs(report->ToText().c_str(), stdout);
  return 0;
}
