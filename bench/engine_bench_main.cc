#include <iostream>

#include "bench/engine_bench.h"

// engine_bench
int main() {
  const auto result = tidemill::RunEngineBench({});
  if (!result.ok()) {
    std::cerr << "engine_bench: " << result.status().message() << "\n";
    return 1;
  }
  std::cout << tidemill::EngineBenchJson(*result) << "\n";
  return 0;
}
