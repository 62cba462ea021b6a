// store_bench [DIRECTORY]: measures the store on the disk of DIRECTORY.
#include <cstdio>

#include "bench/store_bench.h"

int main(int argc, char** argv) {
  tidemill::StoreBenchOptions options;
  if (argc > 1) options.directory = argv[1];
  const auto report = tidemill::RunStoreBench(options);
  if (!report.ok()) {
    std::fprintf(stderr, "store_bench: %s\n", report.status().ToString().c_str());
    return 1;
  }
  std::fputs(report->ToText().c_str(), stdout);
  return 0;
}
