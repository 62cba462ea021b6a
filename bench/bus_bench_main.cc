// bus_bench [redis://host:port/db]: the bus's figures as text.
#include <cstdio>

#include "bench/bus_bench.h"

int main(int argc, char** argv) {
  tidemill::BusBenchOptions options;
  if (argc > 1) options.redis_url = argv[1];
  auto report = tidemill::RunBusBench(options);
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
    return 1;
  }
  std::fputs(report->ToText().c_str(), stdout);
  return 0;
}
