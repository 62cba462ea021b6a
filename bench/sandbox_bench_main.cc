// sandbox_bench: the boxes' figures as text.
#include <cstdio>

#include "bench/sandbox_bench.h"

int main() {
  auto report = tidemill::RunSandboxBench({});
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
    return 1;
  }
  std::fputs(report->ToText().c_str(), stdout);
  return report->Clean() ? 0 : 1;
}
