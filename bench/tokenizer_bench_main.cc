#include <iostream>

#include "bench/tokenizer_bench.h"

// tokenizer_bench [MODEL_DIR]
int main(int argc, char** argv) {
  tidemill::TokenizerBenchOptions options;
  if (argc > 1) options.model_dir = argv[1];
  const auto result = tidemill::RunTokenizerBench(options);
  if (!result.ok()) {
    std::cerr << "tokenizer_bench: " << result.status().message() << "\n";
    return 1;
  }
  std::cout << tidemill::TokenizerBenchJson(*result) << "\n";
  return 0;
}
